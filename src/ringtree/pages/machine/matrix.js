'use strict';

// The matrix of paths as a heat map: by kind, or by bandwidth. A large one is a picture of a pixel a cell.
class MachineMatrix {
  static MOST_CELLS = 44; // in a row, that are elements of their own
  static LABEL = 58;

  constructor(data, shell) {
    Object.assign(this, {data, shell});
    const n = (this.devices = data.matrix.devices).length;
    this.kinds = shell.decode(data.matrix.kinds, n * n);
    this.MBps = shell.decode(data.matrix.bandwidths_MBps, n * n);
    this.top = (d3.max(this.MBps) || 1) * 1e6;
    const {routes} = data.matrix;
    this.first = routes && shell.decode(routes.first, n * n + 1);
    this.links = routes && shell.decode(routes.links, routes.count);
  }

  name(place) {
    const gpus = this.data.devices.filter(({kind}) => kind === 'gpu').length;
    return place < gpus ? `GPU ${place}` : `NIC ${place - gpus}`;
  }

  // The numbers of the links between two devices; none where the page has not got them.
  route(row, column) {
    if (!this.links) return [];
    const at = row * this.devices.length + column;
    return [...this.links.subarray(this.first[at], this.first[at + 1])];
  }

  kind(row, column) {
    return this.data.kinds[this.kinds[row * this.devices.length + column]];
  }

  bandwidth(row, column) {
    return this.MBps[row * this.devices.length + column] * 1e6;
  }

  // Opacity of a bandwidth's colour: logarithmic, as they differ by orders of magnitude.
  #weight(Bps) {
    return Bps > 0 ? 0.1 + 0.85 * Math.max(0, 1 + Math.log10(Bps / this.top) / 2.2) : 0;
  }

  #look(row, column, byBandwidth) {
    if (row === column) return ['muted', 0.08];
    return byBandwidth ? ['blue', this.#weight(this.bandwidth(row, column))] : machineUnits.PATHS[this.kind(row, column)];
  }

  // Draws into `g`, at most `room` wide; returns its size.
  draw(g, room, byBandwidth) {
    const n = this.devices.length;
    if (!n) return [0, 0];
    const cell = Math.max(n > 200 ? 1.2 : 3, Math.min(40, (room - MachineMatrix.LABEL) / n));
    this.cell = cell;
    const {colours} = this.shell;
    const each = Math.max(1, Math.ceil(15 / cell));
    for (let i = 0; i < n; i += each) {
      const at = MachineMatrix.LABEL + (i + 0.5) * cell;
      const size = Math.min(11, cell * each * 0.62);
      machinePicture.words(g, this.name(i), MachineMatrix.LABEL - 8, at - MachineMatrix.LABEL + 26 + size * 0.36, size, colours.muted, 400, 'end');
      const upright = cell < 30;
      const label = machinePicture.words(g, upright ? this.name(i) : this.name(i).replace(' ', ''), 0, 0, Math.min(size, 10), colours.muted, 400, upright ? 'start' : 'middle');
      label.attr('transform', upright ? `translate(${at + 3},22)rotate(-50)` : `translate(${at},20)`);
    }
    const cells = g.append('g').attr('transform', `translate(${MachineMatrix.LABEL},26)`);
    if (n <= MachineMatrix.MOST_CELLS) this.#drawCells(cells, cell, byBandwidth);
    else this.#drawImage(cells, cell, byBandwidth);
    return [MachineMatrix.LABEL + n * cell, 26 + n * cell];
  }

  #drawCells(g, cell, byBandwidth) {
    const {colours} = this.shell;
    const n = this.devices.length;
    for (let row = 0; row < n; row++) {
      for (let column = 0; column < n; column++) {
        const [hue, alpha] = this.#look(row, column, byBandwidth);
        const [a, b] = [row, column].map((i) => this.data.devices[this.devices[i]].name);
        const own = g.append('g').attr('class', 'cell').attr('data-a', a).attr('data-b', b).attr('data-kind', this.kind(row, column))
          .attr('data-bandwidth-bps', this.bandwidth(row, column)).datum({row, column});
        own.append('rect').attr('x', column * cell).attr('y', row * cell).attr('width', cell - 1).attr('height', cell - 1)
          .attr('rx', 2).attr('fill', colours[hue]).attr('fill-opacity', alpha);
        if (cell >= 20 && row !== column) {
          const said = byBandwidth ? this.#GBps(this.bandwidth(row, column)) : this.kind(row, column);
          machinePicture.words(own, said, (column + 0.5) * cell - 0.5, (row + 0.5) * cell + 3, Math.min(10.5, cell * 0.36), colours.ink, 500, 'middle');
        }
      }
    }
  }

  #GBps(Bps) {
    return Bps ? String(Number((Bps / 1e9).toPrecision(Bps >= 1e11 ? 3 : 2))) : '–';
  }

  #drawImage(g, cell, byBandwidth) {
    const n = this.devices.length;
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [n, n];
    const context = canvas.getContext('2d');
    for (let row = 0; row < n; row++) {
      for (let column = 0; column < n; column++) {
        const [hue, alpha] = this.#look(row, column, byBandwidth);
        context.globalAlpha = alpha;
        context.fillStyle = this.shell.colours[hue];
        context.fillRect(column, row, 1, 1);
      }
    }
    g.append('image').attr('class', 'cells').attr('href', canvas.toDataURL()).attr('width', n * cell).attr('height', n * cell)
      .attr('preserveAspectRatio', 'none').attr('image-rendering', 'pixelated').attr('data-cells', n * n).datum({image: true});
  }

  // The cell under the mouse in a large one: {row, column}, or null.
  at(node, event) {
    const box = node.getBoundingClientRect();
    const n = this.devices.length;
    const [column, row] = [(event.clientX - box.x) / box.width, (event.clientY - box.y) / box.height].map((x) => Math.floor(x * n));
    return row >= 0 && row < n && column >= 0 && column < n ? {row, column} : null;
  }
}
