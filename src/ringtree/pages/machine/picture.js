'use strict';

// The machine as a picture: plain attributes only, so that a copy of it stands alone. The thing that an element
// stands for is its d3 datum.
/** @typedef {{device?: number, link?: number, hop?: Hop, row?: number, column?: number, isImage?: boolean}} Bound */
const machinePicture = (() => {
  const LINKS = {
    pcie: 'blue', nvlink: 'green', xgmi: 'green', c2c: 'purple', cpu: 'orange', shm: 'muted', ethernet: 'sky',
    infiniband: 'sky',
  };
  const DEVICES = {
    gpu: 'green', nic: 'sky', storage: 'muted', pci: 'blue', cpu: 'muted', nvswitch: 'muted', switch: 'muted',
  };

  /** @param {Place} box */
  const middle = (box) => box.x + box.w / 2;
  /** @param {number} Bps */
  const thick = (Bps) => Math.max(1, Math.min(7, 1 + Math.log2(Math.max(1, Bps / 8e9))));

  /** @template {SVGElement} E @param {E} element @param {Bound} bound */
  function bind(element, bound) {
    d3.select(element).datum(bound);
    return element;
  }

  /** @param {MachineData} data @param {MachineLayout} out @param {Shell} shell */
  function layers(data, out, shell) {
    const {colours} = shell;
    const trapped = new Set(data.notes.filter((n) => n.kind === 'trap').map((n) => n.about.split(' ')[0]));
    const wired = new Set(out.wires.map(({link}) => link));
    const wires = out.wires.flatMap((wire) => drawWire(data, out, wire, colours));
    const links = data.links.flatMap((link, n) => (wired.has(n) ? [] : drawLink(data, out, link, n, colours)));
    const devices = [...out.at].filter(([device]) => data.devices[device].kind !== 'cpu');
    return {
      boxes: draw('g.boxes', {}, ...out.boxes.map((box) => drawBox(data, box, out.size, shell))),
      links: draw('g.links', {}, ...wires, ...links, ...drawTrunks(data, out, colours)),
      devices: draw('g.devices', {}, ...out.bars.map((bar) => drawBar(data, bar, shell)),
        ...devices.map(([device, box]) => drawDevice(data, device, box, out.size, trapped, colours))),
      overlay: draw('g.overlay', {}),
    };
  }

  /** @param {MachineData} data @param {CpuBox} box @param {MachineSize} size @param {Shell} shell */
  function drawBox(data, box, size, {colours, t}) {
    const {cpu, x, y, w, h} = box;
    const device = data.devices[cpu];
    const frame = draw('rect', {x, y, width: w, height: h, rx: size.words ? 12 : 5, fill: colours.raised,
      stroke: colours['line-strong'], 'stroke-width': 1});
    const own = bind(draw('g', {'data-device': device ? device.name : '', 'data-kind': 'cpu'}, frame), {device: cpu});
    if (!size.words) return own;
    const mates = data.devices.filter((d) => d.kind === 'cpu' && d.numa === device?.numa && d.numa >= 0);
    const numa = mates.length === 1 ? `${t('machine.cpu')} ${device.numa}` : '';
    const title = device ? numa || device.name : t('machine.nowhere');
    const large = size.words > 1;
    own.append(words(title, x + size.pad, y + (large ? 18 : 14), large ? 13 : 10, colours.ink, 600));
    const about = cut(device?.about ?? '', w - 2 * size.pad, 11);
    if (device && large) own.append(words(about, x + size.pad, y + 34, 11, colours.muted));
    return own;
  }

  /** @param {string} text @param {number} x @param {number} y @param {number} size @param {string} fill */
  function words(text, x, y, size, fill, weight = 400, anchor = 'start') {
    return draw('text', {x, y, 'font-size': size, 'font-weight': weight, 'text-anchor': anchor, fill}, text);
  }

  /** As much of the text as has room, about. @param {string} text @param {number} room @param {number} size */
  function cut(text, room, size) {
    const most = Math.floor(room / (size * 0.54));
    return text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text;
  }

  /**
   * @param {MachineData} data @param {number} device @param {Place} box @param {MachineSize} size
   * @param {Set<string>} trapped @param {Shell['colours']} colours
   */
  function drawDevice(data, device, {x, y, w, h}, size, trapped, colours) {
    const d = data.devices[device];
    const frame = {x, y, width: w, height: h, rx: size.words ? 6 : 2};
    const isTrapped = trapped.has(d.name);
    const known = {'data-kind': d.kind, 'data-rate-bps': d.rate_Bps || null, 'data-numa': d.numa};
    const own = draw('g', {'data-device': d.name, ...known}, draw('rect', {
      ...frame, fill: colours.surface, stroke: isTrapped ? colours.vermillion : colours[DEVICES[d.kind]],
      'stroke-width': isTrapped ? 2.5 : d.kind === 'gpu' ? 1.8 : 1.2,
    }));
    if (d.kind === 'gpu') own.append(draw('rect', {...frame, fill: colours.green, opacity: 0.16}));
    if (size.words) own.append(...labels(data, device, {x, y, w, h}, size, colours));
    return bind(own, {device});
  }

  /**
   * @param {MachineData} data @param {number} device @param {Place} box @param {MachineSize} size
   * @param {Shell['colours']} colours
   */
  function labels(data, device, box, size, colours) {
    const d = data.devices[device];
    const number = data.devices.slice(0, device).filter((other) => other.kind === d.kind).length;
    const [x, y] = [middle(box), box.y + box.h / 2];
    /** @param {string} text @param {number} down @param {number} px @param {string} fill */
    const label = (text, down, px, fill, weight = 400) => words(text, x, y + down, px, fill, weight, 'middle');
    if (size.words === 1) {
      if (d.kind === 'gpu') return [label(`${number}`, 4, 11, colours.ink, 600)];
      return d.kind === 'nic' ? [label(`${number}`, 3.5, 9, colours.muted)] : [];
    }
    if (d.kind === 'gpu') return [label(`GPU ${number}`, 5, 14, colours.ink, 600)];
    if (d.kind === 'nic') {
      const rate = d.rate_Bps ? figures.lineRate(d.rate_Bps) : '–';
      return [label(`NIC ${number}`, -2, 11, colours.ink, 600), label(rate, 11, 9.5, colours.muted)];
    }
    return [label(cut(d.name.replace(/^[0-9a-f]{4,8}:(?=..:)/i, ''), box.w - 4, 10.5), 3.5, 10.5, colours.muted)];
  }

  /** @param {MachineData} data @param {Bar} bar @param {Shell} shell */
  function drawBar(data, {device, from, to, y, h}, {colours}) {
    const d = data.devices[device];
    const frame = {x: from, y, width: to - from, height: h, rx: 6};
    const own = draw('g', {'data-device': d.name, 'data-kind': d.kind},
      draw('rect', {...frame, fill: colours.surface, stroke: colours.green, 'stroke-width': 1.8}),
      draw('rect', {...frame, fill: colours.green, opacity: 0.3}));
    const label = cut(d.about || d.name, to - from - 8, 11);
    if (h > 14) own.append(words(label, (from + to) / 2, y + h / 2 + 4, 12, colours.ink, 600, 'middle'));
    return bind(own, {device});
  }

  /**
   * A switch whose GPUs are in several rows is one: its bars are joined.
   * @param {MachineData} data @param {MachineLayout} out @param {Shell['colours']} colours
   */
  function drawTrunks(data, out, colours) {
    return d3.groups(out.bars, (bar) => bar.device).filter(([, own]) => own.length > 1).map(([device, own]) => {
      const x = out.width + 7;
      const path = d3.path();
      for (const bar of own) {
        path.moveTo(bar.to, bar.y + bar.h / 2);
        path.lineTo(x, bar.y + bar.h / 2);
      }
      const last = own[own.length - 1];
      path.moveTo(x, own[0].y + own[0].h / 2);
      path.lineTo(x, last.y + last.h / 2);
      const line = {fill: 'none', stroke: colours.green, 'stroke-width': 4, opacity: 0.75};
      return draw('path', {d: `${path}`, ...line, 'data-trunk': data.devices[device].name});
    });
  }

  /**
   * @param {MachineData} data @param {number} n the link @param {d3.Path} path @param {Shell['colours']} colours
   * @param {number} width
   */
  function stroke(data, n, path, colours, width) {
    const link = data.links[n];
    return bind(draw('path', {
      d: `${path}`, fill: 'none', stroke: colours[LINKS[link.kind]], 'stroke-width': width, 'stroke-linecap': 'round',
      opacity: 0.75, 'data-link': `${data.devices[link.a].name}|${data.devices[link.b].name}`, 'data-number': n,
      'data-kind': link.kind, 'data-generation': link.generation, 'data-width': link.width,
      'data-bandwidth-bps': link.there_Bps,
    }), {link: n});
  }

  /**
   * From what a device hangs on down to it; the second of a stack hangs on the first.
   * @param {MachineData} data @param {MachineLayout} out @param {Wire} wire @param {Shell['colours']} colours
   */
  function drawWire(data, out, {link, holder, device, stacked}, colours) {
    const [from, to] = [out.at.get(holder), out.at.get(device)];
    if (!from || !to) return [];
    const small = !out.size.words;
    const isCpu = data.devices[holder].kind === 'cpu';
    const x = isCpu ? Math.max(from.x + 8, Math.min(from.x + from.w - 8, middle(to))) : middle(from);
    const y = from.y + from.h - (isCpu ? (small ? 2 : 6) : 0);
    const path = d3.path();
    if (stacked) {
      path.moveTo(to.x + to.w - 3, to.y - 4);
      path.lineTo(to.x + to.w - 3, to.y);
    } else {
      const half = (y + to.y) / 2;
      path.moveTo(x, y);
      path.bezierCurveTo(x, half, middle(to), half, middle(to), to.y);
    }
    return [stroke(data, link, path, colours, small ? 1 : thick(data.links[link].there_Bps))];
  }

  /**
   * A link that is no branch: down to a bar, along the zone below GPUs, or over the boxes.
   * @param {MachineData} data @param {MachineLayout} out @param {DeviceLink} link @param {number} n
   * @param {Shell['colours']} colours
   */
  function drawLink(data, out, link, n, colours) {
    const [a, b] = [link.a, link.b].map((device) => out.bars.filter((bar) => bar.device === device));
    if (a.length || b.length) {
      const width = Math.min(thick(link.there_Bps), out.size.words ? 5 : 2);
      const paths = a.length && b.length ? betweenBars(a, b) : toBar(out, a.length ? link.b : link.a, [...a, ...b]);
      return paths.map((path) => stroke(data, n, path, colours, width));
    }
    const [from, to] = [out.at.get(link.a), out.at.get(link.b)];
    if (!from || !to) return [];
    const isCpu = link.kind === 'cpu';
    const path = isCpu ? over(out, from, to) : below(out, link.a, link.b);
    return [stroke(data, n, path, colours, isCpu ? thick(link.there_Bps) : Math.min(4.5, 1 + link.width * 0.45))];
  }

  /** From a switch's bars to one that joins switches, below all rows. @param {Bar[]} a @param {Bar[]} b */
  function betweenBars(a, b) {
    const [far, near] = a.some((bar) => bar.row < 0) ? [a[0], b] : [b[0], a];
    return near.map((bar) => {
      const path = d3.path();
      path.moveTo(bar.from - 4 - 3 * bar.lane, bar.y + bar.h / 2);
      path.lineTo(bar.from - 4 - 3 * bar.lane, far.y);
      return path;
    });
  }

  /** From a device to the bar below its row. @param {MachineLayout} out @param {number} device @param {Bar[]} ends */
  function toBar(out, device, ends) {
    const box = out.at.get(device);
    if (!box) return [];
    const bar = ends.find(({row}) => row === out.rowOf.get(device)) ?? ends[0];
    const x = middle(box) + bar.lane * 5;
    const path = d3.path();
    path.moveTo(x, box.y + box.h);
    path.lineTo(x, bar.y);
    return [path];
  }

  /**
   * Between two boxes side by side straight, else in a curve over them.
   * @param {MachineLayout} out @param {Place} from @param {Place} to
   */
  function over(out, from, to) {
    const path = d3.path();
    const [left, right] = from.x <= to.x ? [from, to] : [to, from];
    const near = out.rowOf.size && left.y === right.y && right.x - (left.x + left.w) < out.size.gap * 2;
    if (left.y !== right.y) {
      const [upper, lower] = from.y < to.y ? [from, to] : [to, from];
      const foot = out.boxes.find((box) => box.x === upper.x && box.y === upper.y) ?? upper;
      const half = (foot.y + foot.h + lower.y) / 2;
      path.moveTo(middle(upper), foot.y + foot.h);
      path.bezierCurveTo(middle(upper), half, middle(lower), half, middle(lower), lower.y);
    } else if (near) {
      path.moveTo(left.x + left.w, left.y + left.h / 2);
      path.lineTo(right.x, right.y + right.h / 2);
    } else {
      path.moveTo(middle(left), left.y);
      const rise = Math.min(32, 12 + (middle(right) - middle(left)) / 60);
      path.bezierCurveTo(middle(left), left.y - rise, middle(right), right.y - rise, middle(right), right.y);
    }
    return path;
  }

  /**
   * Along the zone below the row, the deeper the farther; between rows across. `shift` sets channels apart.
   * @param {MachineLayout} out @param {number} a @param {number} b
   */
  function below(out, a, b, shift = 0) {
    const [from, to] = [machineLayout.placeOf(out, a), machineLayout.placeOf(out, b)];
    const path = d3.path();
    const [x1, y1, x2, y2] = [middle(from) + shift, from.y + from.h, middle(to) + shift, to.y + to.h];
    path.moveTo(x1, y1);
    const row = out.rowOf.get(a) === out.rowOf.get(b) ? out.rows[out.rowOf.get(a) ?? -1] : undefined;
    if (row) {
      const deep = Math.min(1, Math.sqrt(Math.abs(x2 - x1) / out.reach) + shift / 150);
      const sink = (row.zone + out.size.pad - 8) * 1.333 * deep; // a curve goes down three quarters of its handles
      path.bezierCurveTo(x1, y1 + sink, x2, y2 + sink, x2, y2);
    } else {
      const half = (y1 + y2) / 2;
      path.bezierCurveTo(x1, half + 20, x2, half + 20, x2, y2 > y1 ? to.y : y2);
    }
    return path;
  }

  return {layers, bind, below, words};
})();
