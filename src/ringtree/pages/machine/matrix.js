'use strict';

// The matrix of paths as a heat map: by kind, or by bandwidth. A large one is a picture of a pixel a cell.
/** @typedef {{row: number, column: number}} MatrixCell */
/** @typedef {[hue: string, alpha: number]} Hue */
class MachineMatrix {
  static MOST_CELLS = 44; // in a row, that are elements of their own
  static LABEL = 58;
  static TOP = 26;
  /** By the name of the path. @type {Record<string, Hue>} */
  static HUES = {
    LOC: ['muted', 0.1], NVL: ['green', 0.85], NVB: ['green', 0.45], C2C: ['purple', 0.7], PIX: ['blue', 0.8],
    PXB: ['blue', 0.5], P2C: ['purple', 0.45], PXN: ['sky', 0.7], PHB: ['orange', 0.7], SYS: ['vermillion', 0.7],
    NET: ['sky', 0.4], DIS: ['muted', 0.15],
  };

  /** @param {MachineData} data @param {Shell} shell */
  constructor(data, shell) {
    this.data = data;
    this.shell = shell;
    this.devices = data.matrix.devices;
    this.gpus = data.devices.filter(({kind}) => kind === 'gpu').length;
    const n = this.devices.length;
    this.kinds = shell.decode(data.matrix.kinds, n * n);
    this.MBps = shell.decode(data.matrix.bandwidths_MBps, n * n);
    this.top = (d3.max(this.MBps) || 1) * 1e6;
    const {routes} = data.matrix;
    this.first = routes && shell.decode(routes.first, n * n + 1);
    this.links = routes && shell.decode(routes.links, routes.count);
  }

  /** @param {number} position */
  name(position) {
    return position < this.gpus ? `GPU ${position}` : `NIC ${position - this.gpus}`;
  }

  /** The numbers of the links between two devices; none where the page has not got them. @param {MatrixCell} cell */
  route({row, column}) {
    if (!this.links || !this.first) return [];
    const at = row * this.devices.length + column;
    return [...this.links.subarray(this.first[at], this.first[at + 1])];
  }

  /** @param {number} row @param {number} column */
  kind(row, column) {
    return this.data.kinds[this.kinds[row * this.devices.length + column]];
  }

  /** @param {number} row @param {number} column */
  bandwidth(row, column) {
    return this.MBps[row * this.devices.length + column] * 1e6;
  }

  /** Opacity of a bandwidth's colour: logarithmic, as they differ by orders of magnitude. @param {number} Bps */
  #weight(Bps) {
    return Bps > 0 ? 0.1 + 0.85 * Math.max(0, 1 + Math.log10(Bps / this.top) / 2.2) : 0;
  }

  /** @param {number} row @param {number} column @param {boolean} byBandwidth @returns {Hue} */
  #look(row, column, byBandwidth) {
    if (row === column) return ['muted', 0.08];
    if (byBandwidth) return ['blue', this.#weight(this.bandwidth(row, column))];
    return MachineMatrix.HUES[this.kind(row, column)];
  }

  /** As a picture, at most `room` wide. @param {number} room @param {boolean} byBandwidth */
  draw(room, byBandwidth) {
    const {LABEL, TOP, MOST_CELLS} = MachineMatrix;
    const n = this.devices.length;
    const cell = Math.max(n > 200 ? 1.2 : 3, Math.min(40, (room - LABEL) / n));
    const cells = n <= MOST_CELLS ? this.#cells(cell, byBandwidth) : [this.#image(cell, byBandwidth)];
    const [width, height] = [LABEL + n * cell + 24, TOP + n * cell + 20];
    return draw('svg', {width, height, viewBox: `0,0,${width},${height}`, 'font-family': this.shell.font},
      draw('g', {transform: 'translate(0,16)'}, ...this.#labels(cell),
        draw('g', {transform: `translate(${LABEL},${TOP})`}, ...cells)));
  }

  /** The names of rows and columns, as many as have room. @param {number} cell how large one is */
  #labels(cell) {
    const {LABEL, TOP} = MachineMatrix;
    const {muted} = this.shell.colours;
    const each = Math.max(1, Math.ceil(15 / cell));
    const size = Math.min(11, cell * each * 0.62);
    const isUpright = cell < 30;
    return d3.range(0, this.devices.length, each).flatMap((i) => {
      const middle = (i + 0.5) * cell;
      const name = this.name(i);
      const row = machinePicture.words(name, LABEL - 8, middle + TOP + size * 0.36, size, muted, 400, 'end');
      const above = machinePicture.words(isUpright ? name : name.replace(' ', ''), 0, 0, Math.min(size, 10), muted, 400,
        isUpright ? 'start' : 'middle');
      const at = LABEL + middle;
      above.setAttribute('transform', isUpright ? `translate(${at + 3},22)rotate(-50)` : `translate(${at},20)`);
      return [row, above];
    });
  }

  /** @param {number} size @param {boolean} byBandwidth */
  #cells(size, byBandwidth) {
    const {colours} = this.shell;
    const positions = d3.range(this.devices.length);
    return d3.cross(positions, positions, (row, column) => {
      const [hue, alpha] = this.#look(row, column, byBandwidth);
      const [a, b] = [row, column].map((i) => this.data.devices[this.devices[i]].name);
      const box = {x: column * size, y: row * size, width: size - 1, height: size - 1, rx: 2};
      const own = draw('g.cell', {
        'data-a': a, 'data-b': b, 'data-kind': this.kind(row, column),
        'data-bandwidth-bps': this.bandwidth(row, column),
      }, draw('rect', {...box, fill: colours[hue], 'fill-opacity': alpha}));
      if (size >= 20 && row !== column) {
        const label = byBandwidth ? this.#GBps(this.bandwidth(row, column)) : this.kind(row, column);
        const [x, y] = [(column + 0.5) * size - 0.5, (row + 0.5) * size + 3];
        own.append(machinePicture.words(label, x, y, Math.min(10.5, size * 0.36), colours.ink, 500, 'middle'));
      }
      return machinePicture.bind(own, {row, column});
    });
  }

  /** @param {number} Bps */
  #GBps(Bps) {
    return Bps ? String(Number((Bps / 1e9).toPrecision(Bps >= 1e11 ? 3 : 2))) : '–';
  }

  /** @param {number} size of a cell @param {boolean} byBandwidth */
  #image(size, byBandwidth) {
    const n = this.devices.length;
    const canvas = make('canvas', {width: n, height: n});
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    for (let row = 0; row < n; row++) {
      for (let column = 0; column < n; column++) {
        const [hue, alpha] = this.#look(row, column, byBandwidth);
        context.globalAlpha = alpha;
        context.fillStyle = this.shell.colours[hue];
        context.fillRect(column, row, 1, 1);
      }
    }
    return machinePicture.bind(draw('image.cells', {
      href: canvas.toDataURL(), width: n * size, height: n * size, preserveAspectRatio: 'none',
      'image-rendering': 'pixelated', 'data-cells': n * n,
    }), {isImage: true});
  }

  /**
   * The cell under the mouse in a large one, or null.
   * @param {Element} node @param {MouseEvent} event @returns {MatrixCell | null}
   */
  at(node, event) {
    const {x, y, width, height} = node.getBoundingClientRect();
    const n = this.devices.length;
    const column = Math.floor((n * (event.clientX - x)) / width);
    const row = Math.floor((n * (event.clientY - y)) / height);
    return row >= 0 && row < n && column >= 0 && column < n ? {row, column} : null;
  }
}
