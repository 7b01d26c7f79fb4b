'use strict';

// Where each device stands: a box a NUMA node, in rows; in a box what hangs on it, its GPUs on the lowest line; under
// each row room for the links between GPUs, then bars for the NVSwitches.
const machineLayout = (() => {
  const SIZES = [
    // at most so many columns of leaves: their sizes, the gaps, the header of a box, the height of a level
    {most: 44, gpu: [58, 46], nic: [58, 34], storage: [58, 24], pci: [66, 22], gap: 10, pad: 14, head: 44, level: 54, words: 2},
    {most: 160, gpu: [28, 26], nic: [28, 16], storage: [28, 10], pci: [22, 10], gap: 4, pad: 8, head: 24, level: 26, words: 1},
    {most: Infinity, gpu: [14, 16], nic: [14, 8], storage: [14, 5], pci: [12, 6], gap: 2, pad: 5, head: 15, level: 15, words: 0},
  ];
  const STACK = 4; // leaves alike under one switch, but GPUs, stand on one another
  const BAR = 24;
  const sizeOf = (size, kind) => size[kind] || size.nic;

  // Branches as columns: a leaf is one, a stack of leaves too.
  function columns(branches, devices) {
    const found = [];
    for (const [device, link, below] of branches) {
      const {kind} = devices[device];
      const last = found.at(-1);
      const stacks = !below.length && kind !== 'gpu';
      if (stacks && last && last.stack && last.kind === kind && last.stack.length < STACK) {
        last.stack.push({device, link});
      } else if (stacks) found.push({kind, stack: [{device, link}]});
      else found.push({kind, device, link, columns: columns(below, devices)});
    }
    return found;
  }

  const leaves = (found) => d3.sum(found, (c) => (c.columns && c.columns.length ? leaves(c.columns) : 1));
  const depth = (found) => d3.max(found, (c) => (c.columns && c.columns.length ? 1 + depth(c.columns) : 0)) ?? 0;
  const tallest = (found, size) =>
    d3.max(found, (c) => {
      if (c.stack) return c.stack.length * (sizeOf(size, c.kind)[1] + 4) - 4;
      return c.columns.length ? tallest(c.columns, size) : sizeOf(size, c.kind)[1];
    }) ?? 0;

  function widthOf(column, size) {
    const own = sizeOf(size, column.kind)[0];
    if (!column.columns || !column.columns.length) return own;
    return Math.max(own, d3.sum(column.columns, (c) => widthOf(c, size)) + size.gap * (column.columns.length - 1));
  }

  // Places columns from x on; `floor` is the lowest line. Fills `at` by device, and `wires` by link.
  function place(found, x, y, floor, size, holder, out) {
    for (const column of found) {
      const width = widthOf(column, size);
      const [w, h] = sizeOf(size, column.kind);
      const left = x + (width - w) / 2;
      if (column.stack) {
        column.stack.forEach(({device, link}, i) => {
          const top = floor - h - (column.stack.length - 1 - i) * (h + 4);
          out.at.set(device, {x: left, y: top, w, h});
          if (link >= 0) out.wires.push({link, holder, device, from: holder, stacked: i > 0});
        });
      } else {
        const leaf = !column.columns.length;
        out.at.set(column.device, {x: left, y: leaf ? floor - h : y, w, h});
        if (column.link >= 0) out.wires.push({link: column.link, holder, device: column.device, stacked: false});
        if (!leaf) place(column.columns, x + (width - inner(column, size)) / 2, y + size.level, floor, size, column.device, out);
      }
      x += width + size.gap;
    }
  }

  const inner = (column, size) => d3.sum(column.columns, (c) => widthOf(c, size)) + size.gap * (column.columns.length - 1);

  function boxesOf(data) {
    const orphans = [];
    const boxes = [];
    for (const [device, , below] of data.tree) {
      if (data.devices[device].kind === 'cpu') boxes.push({cpu: device, columns: columns(below, data.devices)});
      else orphans.push([device, -1, below]);
    }
    if (orphans.length) boxes.push({cpu: -1, columns: columns(orphans, data.devices)});
    return boxes;
  }

  // The switches that GPUs lead to, as bars below the rows that have such GPUs; overlapping ones on one another.
  function bars(data, out, row) {
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
    const lanes = [];
    return [...spans].map(([device, [from, to]]) => {
      let lane = lanes.findIndex((end) => end < from);
      if (lane < 0) lane = lanes.length;
      lanes[lane] = to;
      return {device, from, to, lane};
    });
  }

  function rowsOf(boxes, room) {
    const total = d3.sum(boxes, (b) => b.w);
    const many = total < 1.6 * room ? 1 : Math.ceil(total / room);
    const most = Math.ceil(boxes.length / many);
    const each = d3.range(most, most * 0.6, -1).find((n) => boxes.length % n === 0) || most; // rows alike, if that goes
    return d3.range(0, boxes.length, each).map((i) => boxes.slice(i, i + each));
  }

  // {width, height, boxes, at, wires, rows, size}; `at` has a box for each device but those that are bars.
  function layout(data, room) {
    const boxes = boxesOf(data);
    const size = SIZES.find(({most}) => d3.sum(boxes, (b) => leaves(b.columns)) <= most);
    const out = {at: new Map(), wires: [], rowOf: new Map(), bars: [], rows: [], boxes, size};
    for (const box of boxes) {
      const width = d3.sum(box.columns, (c) => widthOf(c, size)) + size.gap * Math.max(0, box.columns.length - 1);
      const least = box.columns.length ? 92 * size.words : 46 * size.words; // a node on which nothing hangs is narrow
      box.w = Math.max(width, least, 30) + 2 * size.pad;
      box.h = size.head + depth(box.columns) * size.level + tallest(box.columns, size) + 2 * size.pad;
    }
    const inside = data.links.some(({kind}) => kind === 'nvlink' || kind === 'xgmi') || data.channels.length;
    const over = data.links.filter(({kind}) => kind === 'cpu').length > 1 && boxes.length <= 8 ? 34 : 6;
    const zone = inside ? [26, 46, 92][size.words] : 8;
    let y = over;
    rowsOf(boxes, room).forEach((row, r) => {
      const height = d3.max(row, (b) => b.h);
      const gap = size.gap * 1.6;
      let x = 0;
      for (const box of row) {
        Object.assign(box, {x, y, h: height, row: r});
        if (box.cpu >= 0) out.at.set(box.cpu, {x, y, w: box.w, h: size.head});
        const width = d3.sum(box.columns, (c) => widthOf(c, size)) + size.gap * Math.max(0, box.columns.length - 1);
        const before = new Set(out.at.keys());
        place(box.columns, x + (box.w - width) / 2, y + size.head + size.pad * 0.6, y + height - size.pad, size, box.cpu, out);
        for (const device of out.at.keys()) if (!before.has(device)) out.rowOf.set(device, r);
        x += box.w + gap;
      }
      const found = bars(data, out, r);
      const lanes = found.length ? 1 + d3.max(found, (b) => b.lane) : 0;
      const top = y + height + (lanes || inside ? zone : 8);
      for (const bar of found) out.bars.push({...bar, y: top + bar.lane * (BAR + 5), h: size.words ? BAR : 12, row: r});
      out.rows.push({y, height, zone, right: x - gap});
      y = top + lanes * (BAR + 5) + 14;
    });
    return {...out, reach: reachOf(data, out), ...finish(data, out, y)};
  }

  // How far apart the farthest two are in one row that an arc joins.
  function reachOf(data, out) {
    const gpus = data.devices.flatMap((d, n) => (d.kind === 'gpu' ? [n] : []));
    const joined = data.links.filter(({kind}) => kind === 'nvlink' || kind === 'xgmi').map(({a, b}) => [a, b]);
    for (const {orders, pattern} of data.channels) {
      for (const order of orders) {
        const stops = order.map((rank) => gpus[rank]);
        joined.push(...d3.pairs(pattern === 'ring' ? [...stops, stops[0]] : stops));
      }
    }
    const apart = joined.filter(([a, b]) => out.at.has(a) && out.at.has(b) && out.rowOf.get(a) === out.rowOf.get(b));
    return d3.max(apart, ([a, b]) => Math.abs(out.at.get(a).x - out.at.get(b).x)) || 1;
  }

  // What no row has: switches that join switches only, as a bar under everything; then the size of it all.
  function finish(data, out, y) {
    const width = d3.max(out.rows, (row) => row.right) ?? 0;
    const placed = new Set([...out.at.keys(), ...out.bars.map((b) => b.device)]);
    data.devices.forEach((_, device) => {
      if (placed.has(device)) return;
      out.bars.push({device, from: 0, to: Math.max(width, 200), lane: 0, y, h: BAR, row: -1});
      y += BAR + 10;
    });
    return {width: Math.max(width, 200), height: y};
  }

  return {layout};
})();
