'use strict';

// Where the participants lie on the stage: in a ring, as trees, on a grid or on their hosts.
/** @typedef {'ring' | 'grid' | 'trees' | 'hosts'} LayoutName */
/** @typedef {{x: number, y: number}} Point */
/** @typedef {Point & {rank: number, tree: number, isNamed?: boolean, isLeaf?: boolean}} Spot Of a participant. */
/** @typedef {Point & {width: number, height: number}} Box */
/** @typedef {Box & {tree?: number, host?: number}} Frame */
/**
 * All nodes are of one radius; `bend`: how far the path between two of them leaves the straight line, as a share of
 * its length; `frames` are the boxes of hosts or trees.
 * @typedef {{nodes: Spot[], frames: Frame[], radius: number, bend: (a: Spot, b: Spot) => number}} Geometry
 */
/** @typedef {(contents: Contents, width: number, height: number) => Geometry} Layout */
const RADIUS = {most: 28, least: 1.5};
const EDGE = 38; // kept free above for the caption, below for the legend

/**
 * The layouts of this schedule, the one to begin with first.
 * @param {Contents} contents @returns {[LayoutName, ...LayoutName[]]}
 */
function layoutsOf(contents) {
  const {trees, hosts, ranks} = contents;
  const depth = Math.max(0, ...trees.map((tree) => hierarchyOf(tree).height));
  /** @type {LayoutName} */
  let first = gridOf(contents).isAligned ? 'grid' : 'ring';
  if (trees.length && depth <= 5 + 2 * Math.log2(ranks)) first = 'trees';
  if (hosts) first = 'hosts';
  /** @type {LayoutName[]} */
  const found = ['ring', 'grid'];
  if (trees.length) found.push('trees');
  if (hosts) found.push('hosts');
  return [first, ...found.filter((name) => name !== first)];
}

/** @param {LayoutName} name @param {Contents} contents @param {number} width @param {number} height */
function place(name, contents, width, height) {
  const layout = {ring: ringLayout, grid: gridLayout, trees: treesLayout, hosts: hostsLayout}[name];
  const geometry = layout(contents, width, height - 2 * EDGE);
  for (const at of [...geometry.nodes, ...geometry.frames]) at.y += EDGE;
  /** @param {number} rank @param {number} tree */
  const key = (rank, tree) => (name === 'trees' ? tree : 0) * contents.participants + rank;
  const nodeOf = new Map(geometry.nodes.map((node) => [key(node.rank, node.tree), node]));
  return {
    ...geometry,
    /** @param {number} rank @param {number} tree */
    node: (rank, tree) => nodeOf.get(key(rank, tree)),
  };
}

/** @param {number} radius */
const clampRadius = (radius) => Math.max(RADIUS.least, Math.min(RADIUS.most, radius));

/** @type {Layout} */
function ringLayout({ranks, switches}, width, height) {
  const outer = Math.max(20, Math.min(width, height) / 2 - 22);
  const straight = ranks > 24 ? Math.max(0, Math.min(width - 80 - 2 * outer, 2.2 * outer)) : 0; // many need the room
  const around = 2 * straight + 2 * Math.PI * outer;
  const radius = clampRadius(Math.min((around * 0.23) / ranks, outer / 4));
  const inner = switches > 1 ? Math.min(outer * 0.4, switches * radius) : 0;
  const nodes = d3.range(ranks + switches).map((rank) => {
    const at =
      rank < ranks
        ? onTrack(ranks > 1 ? rank / ranks : 0, ranks > 1 ? outer : 0, straight)
        : onTrack((rank - ranks) / switches, inner, 0);
    return {rank, tree: 0, x: width / 2 + at.x, y: height / 2 + at.y};
  });
  return {nodes, frames: [], radius, bend: () => 0.13};
}

/**
 * A point of a running track, two half circles and two straights, clockwise from the middle of its upper straight.
 * @param {number} share @param {number} radius @param {number} straight
 */
function onTrack(share, radius, straight) {
  const turn = Math.PI * radius;
  let way = share * (2 * straight + 2 * turn);
  if (way <= straight / 2) return {x: way, y: -radius};
  way -= straight / 2;
  if (way <= turn) return {x: straight / 2 + radius * Math.sin(way / radius), y: -radius * Math.cos(way / radius)};
  way -= turn;
  if (way <= straight) return {x: straight / 2 - way, y: radius};
  way -= straight;
  if (way <= turn) return {x: -straight / 2 - radius * Math.sin(way / radius), y: radius * Math.cos(way / radius)};
  return {x: -straight / 2 + way - turn, y: -radius};
}

/** @type {WeakMap<Contents, {columns: number, rows: number, isAligned: boolean}>} */
const grids = new WeakMap();

/**
 * Columns and rows nearest to a square such that all pairs that exchange something are in one row or column; where
 * there are none, nearest to a square. Wide before high.
 * @param {Contents} contents
 */
function gridOf(contents) {
  const known = grids.get(contents);
  if (known) return known;
  const {ranks, rows} = contents;
  const pairs = new Set();
  for (let row = 0; row < contents.transfers; row++) {
    const [a, b] = [rows.source[row], rows.target[row]];
    if (a !== b && a < ranks && b < ranks) pairs.add(a * ranks + b);
  }
  /** @param {number} columns */
  const isAligned = (columns) => {
    for (const pair of pairs) {
      const [a, b] = [Math.floor(pair / ranks), pair % ranks];
      if (a % columns !== b % columns && Math.floor(a / columns) !== Math.floor(b / columns)) return false;
    }
    return pairs.size > 0;
  };
  /** @param {number} columns */
  const off = (columns) => Math.abs(Math.log(columns / Math.sqrt(ranks)));
  const divisors = d3.range(ranks - 1, 1, -1).filter((d) => ranks % d === 0);
  const nearest = d3.sort(divisors, off);
  const aligned = nearest.find(isAligned);
  const columns = aligned || nearest.find((d) => off(d) < Math.log(2)) || Math.ceil(Math.sqrt(ranks));
  const grid = {columns, rows: Math.ceil(ranks / columns), isAligned: aligned !== undefined};
  grids.set(contents, grid);
  return grid;
}

/** @type {Layout} */
function gridLayout(contents, width, height) {
  const {columns, rows} = gridOf(contents);
  const down = Math.min(height / (rows + 0.1), 170);
  const across = Math.min(width / (columns + 0.2), Math.max(down * 1.6, 60));
  const gap = Math.min(across, down);
  const [left, top] = [width / 2 - (across * (columns - 1)) / 2, height / 2 - (down * (rows - 1)) / 2];
  const nodes = d3.range(contents.ranks).map((rank) => ({
    rank,
    tree: 0,
    x: left + across * (rank % columns),
    y: top + down * Math.floor(rank / columns),
  }));
  for (let i = 0; i < contents.switches; i++) {
    const along = (i + 0.5) / contents.switches;
    nodes.push({
      rank: contents.ranks + i,
      tree: 0,
      x: left + across * (columns - 1) * along,
      y: height / 2 + down / 2,
    });
  }
  /** @type {Geometry['bend']} */
  const bend = (a, b) => {
    const [dx, dy] = [Math.abs(a.x - b.x), Math.abs(a.y - b.y)];
    if (dx < 1.1 * across && dy < 1.1 * down) return 0.1;
    return dx < 1 || dy < 1 ? (gap * 0.36) / (dx + dy) : 0.03; // around those between, not through them
  };
  return {nodes, frames: [], radius: clampRadius(gap * 0.22), bend};
}

/** @type {Layout} */
function hostsLayout(contents, width, height) {
  const hosts = d3.groups(d3.range(contents.ranks), (rank) => contents.hosts?.[rank]);
  const boxes = boxGrid(hosts.length, width, height - (contents.switches ? 60 : 0), 14);
  const most = Math.max(...hosts.map(([, members]) => members.length));
  const mostLines = Math.ceil(most / Math.ceil(Math.sqrt((most * boxes[0].width) / boxes[0].height)));
  const columns = Math.ceil(most / mostLines);
  /** @type {Spot[]} */
  const nodes = [];
  const gap = Math.min(boxes[0].width / columns, (boxes[0].height - 24) / mostLines, 110);
  const frames = hosts.map(([host, members], i) => {
    const box = boxes[i];
    const lines = Math.ceil(members.length / columns);
    members.forEach((rank, k) => {
      const inLine = Math.min(columns, members.length - Math.floor(k / columns) * columns);
      nodes.push({
        rank,
        tree: 0,
        x: box.x + box.width / 2 + gap * ((k % columns) - (inLine - 1) / 2),
        y: box.y + 12 + box.height / 2 + gap * (Math.floor(k / columns) - (lines - 1) / 2),
      });
    });
    return {...box, host};
  });
  for (let i = 0; i < contents.switches; i++) {
    nodes.push({rank: contents.ranks + i, tree: 0, x: (width * (i + 0.5)) / contents.switches, y: height - 30});
  }
  return {nodes, frames, radius: clampRadius(gap * 0.3), bend: () => 0.15};
}

/**
 * As many boxes, in lines that fill width and height, with `gap` around each.
 * @param {number} many @param {number} width @param {number} height @param {number} gap @returns {Box[]}
 */
function boxGrid(many, width, height, gap) {
  const lines = Math.ceil(many / Math.max(1, Math.min(many, Math.round(Math.sqrt((many * width) / height)))));
  const columns = Math.ceil(many / lines);
  const [w, h] = [(width - gap) / columns - gap, (height - gap) / lines - gap];
  return d3.range(many).map((i) => ({
    x: gap + (i % columns) * (w + gap),
    y: gap + Math.floor(i / columns) * (h + gap),
    width: w,
    height: h,
  }));
}

const ROOT = -1;

/** @param {Tree} tree */
function hierarchyOf({parent}) {
  const children = d3.group(d3.range(parent.length), (rank) => parent[rank]);
  return d3.hierarchy(parent.indexOf(ROOT), (rank) => children.get(rank));
}

/** @type {Layout} */
function treesLayout(contents, width, height) {
  const {trees} = contents;
  const boxes = boxGrid(trees.length, width, height, 10);
  /** @type {Spot[]} */
  const nodes = [];
  let radius = RADIUS.most;
  const frames = trees.map((tree, index) => {
    const box = boxes[index];
    const hierarchy = hierarchyOf(tree);
    const many = hierarchy.leaves().length;
    const [across, down] = [box.width / many, (box.height - 76) / Math.max(hierarchy.height, 1)];
    radius = Math.min(radius, across * 0.42, down * 0.3);
    const layOut = /** @type {d3.TreeLayout<number>} */ (d3.tree());
    const root = layOut.size([box.width, 1]).separation(() => 1)(hierarchy);
    const step = Math.min(down, 140);
    const levels = d3.group(root.descendants(), (node) => node.depth);
    for (const node of root.descendants()) {
      const level = levels.get(node.depth) ?? [];
      const every = Math.ceil((20 * level.length) / box.width);
      nodes.push({
        rank: node.data,
        tree: index,
        x: box.x + node.x,
        isNamed: level.indexOf(node) % every === 0,
        isLeaf: !node.children,
        y: box.y + 50 + (box.height - 76 - step * root.height) / 2 + step * node.depth,
      });
    }
    return {...box, tree: index};
  });
  return {nodes, frames, radius: clampRadius(radius), bend: () => 0.03};
}

/**
 * In which of the trees each transfer runs: one with its chunk and its edge, else with its edge.
 * @param {Contents} contents
 */
function treeOfRows(contents) {
  const {trees, rows} = contents;
  const chunks = trees.map((tree) => new Set(tree.chunks));
  const found = new Int8Array(contents.transfers);
  for (let row = 0; row < contents.transfers && trees.length; row++) {
    const [a, b] = [rows.source[row], rows.target[row]];
    /** @param {Tree} tree */
    const isEdge = ({parent, ways}) =>
      a === b || (parent[b] === a && ways.includes('down')) || (parent[a] === b && ways.includes('up'));
    const best = trees.findIndex((tree, i) => isEdge(tree) && chunks[i].has(rows.source_chunk[row]));
    found[row] = Math.max(0, best >= 0 ? best : trees.findIndex(isEdge));
  }
  return found;
}
