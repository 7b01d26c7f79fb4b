'use strict';

// Where each device stands: a box a NUMA node, in rows; in a box what hangs on it, its GPUs on the lowest line; under
// each row room for the links between GPUs, then bars for the NVSwitches.
const {make, draw, table, choices, refill} = elements;

/** @typedef {{x: number, y: number, w: number, h: number}} Place */
/** @typedef {{device: number, link: number}} Leaf */
/** Leaves on one another, or a device and what hangs on it. */
/**
 * @typedef {{kind: DeviceKind, columns: MachineColumn[], stack: Leaf[]}
 *   | (Leaf & {kind: DeviceKind, columns: MachineColumn[], stack: null})} MachineColumn
 */
/** @typedef {{device: number, from: number, to: number, lane: number, y: number, h: number, row: number}} Bar */
/** @typedef {{link: number, holder: number, device: number, stacked: boolean}} Wire */
/** @typedef {Place & {cpu: number, columns: MachineColumn[]}} CpuBox */
/** @typedef {'gpu' | 'nic' | 'storage' | 'pci'} SizedKind */
/**
 * The sizes for at most `most` columns of leaves: [width, height] of devices, the gaps, the header of a box, the
 * height of a level, and how much text there is.
 * @typedef {{most: number, gap: number, pad: number, head: number, level: number, words: number}
 *   & Record<SizedKind, number[]>} MachineSize
 */
/** @typedef {ReturnType<typeof machineLayout.layout>} MachineLayout */

const machineLayout = (() => {
  /** @type {MachineSize[]} */
  const SIZES = [
    {most: 44, gap: 10, pad: 14, head: 44, level: 54, words: 2,
      gpu: [58, 46], nic: [58, 34], storage: [58, 24], pci: [66, 22]},
    {most: 160, gap: 4, pad: 8, head: 24, level: 26, words: 1,
      gpu: [28, 26], nic: [28, 16], storage: [28, 10], pci: [22, 10]},
    {most: Infinity, gap: 2, pad: 5, head: 15, level: 15, words: 0,
      gpu: [14, 16], nic: [14, 8], storage: [14, 5], pci: [12, 6]},
  ];
  const STACK = 4; // leaves alike under one switch, but GPUs, stand on one another
  const BAR = 24;
  /** @param {MachineSize} size @param {DeviceKind} kind */
  const sizeOf = (size, kind) => size[kind === 'gpu' || kind === 'storage' || kind === 'pci' ? kind : 'nic'];

  /** Branches as columns: a leaf is one, a stack of leaves too. @param {Branch[]} branches @param {Device[]} devices */
  function columns(branches, devices) {
    /** @type {MachineColumn[]} */
    const found = [];
    for (const [device, link, below] of branches) {
      const {kind} = devices[device];
      const last = found.at(-1);
      const stacks = !below.length && kind !== 'gpu';
      if (stacks && last?.stack && last.kind === kind && last.stack.length < STACK) last.stack.push({device, link});
      else if (stacks) found.push({kind, columns: [], stack: [{device, link}]});
      else found.push({kind, columns: columns(below, devices), stack: null, device, link});
    }
    return found;
  }

  /** @param {MachineColumn[]} found @returns {number} */
  const leaves = (found) => d3.sum(found, (c) => (c.columns.length ? leaves(c.columns) : 1));
  /** @param {MachineColumn[]} found @returns {number} */
  const depth = (found) => d3.max(found, (c) => (c.columns.length ? 1 + depth(c.columns) : 0)) ?? 0;
  /** @param {MachineColumn[]} found @param {MachineSize} size @returns {number} */
  const tallest = (found, size) =>
    d3.max(found, (c) => {
      if (c.columns.length) return tallest(c.columns, size);
      return (c.stack?.length ?? 1) * (sizeOf(size, c.kind)[1] + 4) - 4;
    }) ?? 0;
  /** How wide these are side by side. @param {MachineColumn[]} found @param {MachineSize} size @returns {number} */
  const widthOf = (found, size) =>
    d3.sum(found, (c) => Math.max(sizeOf(size, c.kind)[0], widthOf(c.columns, size)))
    + size.gap * Math.max(0, found.length - 1);

  /**
   * Places columns from x on; `floor` is the lowest line. Fills in where each device is, and the wires.
   * @param {MachineColumn[]} found @param {number} x @param {number} y @param {number} floor @param {MachineSize} size
   * @param {number} holder @param {{at: Map<number, Place>, wires: Wire[]}} out
   */
  function place(found, x, y, floor, size, holder, out) {
    for (const column of found) {
      const width = widthOf([column], size);
      const [w, h] = sizeOf(size, column.kind);
      const left = x + (width - w) / 2;
      const stack = column.stack ?? [column];
      stack.forEach(({device, link}, i) => {
        const top = column.columns.length ? y : floor - h - (stack.length - 1 - i) * (h + 4);
        out.at.set(device, {x: left, y: top, w, h});
        if (link >= 0) out.wires.push({link, holder, device, stacked: i > 0});
      });
      const inner = x + (width - widthOf(column.columns, size)) / 2;
      if (!column.stack) place(column.columns, inner, y + size.level, floor, size, column.device, out);
      x += width + size.gap;
    }
  }

  /** A box a NUMA node, and one for what hangs on none. @param {MachineData} data @returns {CpuBox[]} */
  function boxesOf({tree, devices}) {
    const [cpus, orphans] = [true, false].map((isCpu) => tree.filter(([d]) => (devices[d].kind === 'cpu') === isCpu));
    const boxes = cpus.map(([cpu, , below]) => ({cpu, columns: columns(below, devices)}));
    if (orphans.length) boxes.push({cpu: -1, columns: columns(orphans.map(([d, , below]) => [d, -1, below]), devices)});
    return boxes.map((box) => ({...box, x: 0, y: 0, w: 0, h: 0}));
  }

  /**
   * The switches that GPUs lead to, as bars below the rows that have such GPUs; overlapping ones on one another.
   * @param {MachineData} data @param {{at: Map<number, Place>, rowOf: Map<number, number>}} out @param {number} row
   */
  function bars(data, out, row) {
    /** @type {Map<number, [from: number, to: number]>} */
    const spans = new Map();
    for (const {a, b} of data.links) {
      const ends = [a, b].map((n) => data.devices[n].kind);
      const joins = ends.findIndex((kind) => kind === 'nvswitch' || kind === 'switch');
      if (joins < 0) continue;
      const [bar, leaf] = joins === 0 ? [a, b] : [b, a];
      const box = out.at.get(leaf);
      if (!box || out.rowOf.get(leaf) !== row) continue;
      const span = spans.get(bar) || [Infinity, -Infinity];
      spans.set(bar, [Math.min(span[0], box.x), Math.max(span[1], box.x + box.w)]);
    }
    /** @type {number[]} */
    const lanes = [];
    return [...spans].map(([device, [from, to]]) => {
      let lane = lanes.findIndex((end) => end < from);
      if (lane < 0) lane = lanes.length;
      lanes[lane] = to;
      return {device, from, to, lane};
    });
  }

  /** @param {CpuBox[]} boxes @param {number} room */
  function rowsOf(boxes, room) {
    const total = d3.sum(boxes, (b) => b.w);
    const many = total < 1.6 * room ? 1 : Math.ceil(total / room);
    const most = Math.ceil(boxes.length / many);
    const each = d3.range(most, most * 0.6, -1).find((n) => boxes.length % n === 0) || most; // rows alike, if that goes
    return d3.range(0, boxes.length, each).map((i) => boxes.slice(i, i + each));
  }

  /** `at` has a position for each device but those that are bars. @param {MachineData} data @param {number} room */
  function layout(data, room) {
    const boxes = boxesOf(data);
    const size = SIZES.find(({most}) => d3.sum(boxes, (b) => leaves(b.columns)) <= most) ?? SIZES[0];
    const out = {
      boxes, size, at: /** @type {Map<number, Place>} */ (new Map()), wires: /** @type {Wire[]} */ ([]),
      rowOf: /** @type {Map<number, number>} */ (new Map()), bars: /** @type {Bar[]} */ ([]),
      rows: /** @type {{zone: number, right: number}[]} */ ([]),
    };
    for (const box of boxes) {
      const least = box.columns.length ? 92 * size.words : 46 * size.words; // a node on which nothing hangs is narrow
      box.w = Math.max(widthOf(box.columns, size), least, 30) + 2 * size.pad;
      box.h = size.head + depth(box.columns) * size.level + tallest(box.columns, size) + 2 * size.pad;
    }
    const inside = data.links.some(({kind}) => kind === 'nvlink' || kind === 'xgmi') || data.channels.length;
    const over = data.links.filter(({kind}) => kind === 'cpu').length > 1 && boxes.length <= 8 ? 34 : 6;
    const zone = inside ? [26, 46, 92][size.words] : 8;
    let y = over;
    rowsOf(boxes, room).forEach((row, r) => {
      const height = Math.max(...row.map((b) => b.h));
      const gap = size.gap * 1.6;
      let x = 0;
      for (const box of row) {
        Object.assign(box, {x, y, h: height});
        if (box.cpu >= 0) out.at.set(box.cpu, {x, y, w: box.w, h: size.head});
        const before = new Set(out.at.keys());
        const left = x + (box.w - widthOf(box.columns, size)) / 2;
        place(box.columns, left, y + size.head + size.pad * 0.6, y + height - size.pad, size, box.cpu, out);
        for (const device of out.at.keys()) if (!before.has(device)) out.rowOf.set(device, r);
        x += box.w + gap;
      }
      const found = bars(data, out, r);
      const lanes = Math.max(0, ...found.map((b) => b.lane + 1));
      const top = y + height + (lanes || inside ? zone : 8);
      for (const bar of found) out.bars.push({...bar, y: top + bar.lane * (BAR + 5), h: size.words ? BAR : 12, row: r});
      out.rows.push({zone, right: x - gap});
      y = top + lanes * (BAR + 5) + 14;
    });
    return {...out, reach: reachOf(data, out), ...addRest(data, out, y)};
  }

  /**
   * How far apart the farthest two are in one row that an arc joins.
   * @param {MachineData} data @param {{at: Map<number, Place>, rowOf: Map<number, number>}} out
   */
  function reachOf(data, {at, rowOf}) {
    const gpus = data.devices.flatMap((d, n) => (d.kind === 'gpu' ? [n] : []));
    const arcs = data.links.filter(({kind}) => kind === 'nvlink' || kind === 'xgmi');
    const joined = arcs.map(({a, b}) => [a, b]);
    for (const {orders, pattern} of data.channels) {
      for (const order of orders) {
        const stops = order.map((rank) => gpus[rank]);
        joined.push(...d3.pairs(pattern === 'ring' ? [...stops, stops[0]] : stops));
      }
    }
    const near = joined.filter(([a, b]) => rowOf.get(a) === rowOf.get(b));
    return d3.max(near, ([a, b]) => Math.abs((at.get(a)?.x ?? NaN) - (at.get(b)?.x ?? NaN))) || 1;
  }

  /**
   * What no row has: switches that join switches only, as a bar under everything. Returns the size of it all.
   * @param {MachineData} data @param {{at: Map<number, Place>, bars: Bar[], rows: {right: number}[]}} out
   * @param {number} y
   */
  function addRest(data, out, y) {
    const width = d3.max(out.rows, (row) => row.right) ?? 0;
    const placed = new Set([...out.at.keys(), ...out.bars.map((b) => b.device)]);
    data.devices.forEach((_, device) => {
      if (placed.has(device)) return;
      out.bars.push({device, from: 0, to: Math.max(width, 200), lane: 0, y, h: BAR, row: -1});
      y += BAR + 10;
    });
    return {width: Math.max(width, 200), height: y};
  }

  /** Where a device is that is no bar. @param {{at: Map<number, Place>}} out @param {number} device */
  const placeOf = (out, device) => /** @type {Place} */ (out.at.get(device));

  return {layout, placeOf};
})();
