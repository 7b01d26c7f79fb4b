'use strict';

// Where the participants lie on the stage: in a ring, as trees, on a grid or on their hosts. Each layout is a function
// (contents, width, height) -> {nodes, radius, bend, frames?}: nodes are [{rank, x, y, tree}], all of one radius;
// bend(a, b) says how far the way between two of them leaves the straight line, as a share of its length; frames are
// the boxes of hosts or trees.
const RADIUS = {most: 28, least: 1.5};
const EDGE = 38; // kept free above for the caption, below for the legend

// The layouts of this schedule, the one to begin with first.
function layoutsOf(contents) {
  const {trees} = contents;
  const grid = gridOf(contents);
  const found = ['ring', 'grid'];
  if (trees.length) found.push('trees');
  if (contents.hosts) found.push('hosts');
  let first = 'ring';
  if (grid.isAligned) first = 'grid';
  const depth = Math.max(0, ...trees.map((tree) => hierarchyOf(tree).height));
  if (trees.length && depth <= 5 + 2 * Math.log2(contents.ranks)) first = 'trees';
  if (contents.hosts) first = 'hosts';
  return [first, ...found.filter((name) => name !== first)];
}

function place(name, contents, width, height) {
  const geometry = {ring: ringLayout, grid: gridLayout, trees: treesLayout, hosts: hostsLayout}[name](
    contents,
    width,
    height - 2 * EDGE,
  );
  for (const at of [...geometry.nodes, ...(geometry.frames || [])]) at.y += EDGE;
  const nodeOf = new Map(geometry.nodes.map((node) => [node.tree * contents.participants + node.rank, node]));
  return {
    frames: [],
    ...geometry,
    node: (rank, tree) => nodeOf.get((name === 'trees' ? tree : 0) * contents.participants + rank),
  };
}

const clampRadius = (radius) => Math.max(RADIUS.least, Math.min(RADIUS.most, radius));

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
  return {nodes, radius, bend: () => 0.13};
}

// A point of a running track, two half circles and two straights, clockwise from the middle of its upper straight.
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

// Columns and rows nearest to a square such that all pairs that exchange something are in one row or column; where
// there are none, nearest to a square. Wide before high.
function gridOf(contents) {
  if (contents.grid) return contents.grid;
  const {ranks, rows} = contents;
  const pairs = new Set();
  for (let row = 0; row < contents.transfers; row++) {
    const [a, b] = [rows.source[row], rows.target[row]];
    if (a !== b && a < ranks && b < ranks) pairs.add(a * ranks + b);
  }
  const isAligned = (columns) => {
    for (const pair of pairs) {
      const [a, b] = [Math.floor(pair / ranks), pair % ranks];
      if (a % columns !== b % columns && Math.floor(a / columns) !== Math.floor(b / columns)) return false;
    }
    return pairs.size > 0;
  };
  const off = (columns) => Math.abs(Math.log(columns / Math.sqrt(ranks)));
  const divisors = d3.range(ranks - 1, 1, -1).filter((d) => ranks % d === 0);
  const nearest = d3.sort(divisors, off);
  const aligned = nearest.find(isAligned);
  const columns = aligned || nearest.find((d) => off(d) < Math.log(2)) || Math.ceil(Math.sqrt(ranks));
  contents.grid = {columns, rows: Math.ceil(ranks / columns), isAligned: aligned !== undefined};
  return contents.grid;
}

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
  const bend = (a, b) => {
    const [dx, dy] = [Math.abs(a.x - b.x), Math.abs(a.y - b.y)];
    if (dx < 1.1 * across && dy < 1.1 * down) return 0.1;
    return dx < 1 || dy < 1 ? (gap * 0.36) / (dx + dy) : 0.03; // around those between, not through them
  };
  return {nodes, radius: clampRadius(gap * 0.22), bend};
}

function hostsLayout(contents, width, height) {
  const hosts = d3.groups(d3.range(contents.ranks), (rank) => contents.hosts[rank]);
  const boxes = boxGrid(hosts.length, width, height - (contents.switches ? 60 : 0), 14);
  const most = d3.max(hosts, ([, members]) => members.length);
  const mostLines = Math.ceil(most / Math.ceil(Math.sqrt((most * boxes[0].width) / boxes[0].height)));
  const columns = Math.ceil(most / mostLines);
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

// As many boxes, in lines that fill width and height, with `gap` around each.
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

function hierarchyOf(tree) {
  const children = d3.group(d3.range(tree.parent.length), (rank) => tree.parent[rank]);
  return d3.hierarchy(children.get(ROOT)[0], (rank) => children.get(rank));
}

function treesLayout(contents, width, height) {
  const {trees} = contents;
  const boxes = boxGrid(trees.length, width, height, 10);
  const nodes = [];
  let radius = RADIUS.most;
  const frames = trees.map((tree, index) => {
    const box = boxes[index];
    const root = hierarchyOf(tree);
    const many = root.leaves().length;
    const [across, down] = [box.width / many, (box.height - 76) / Math.max(root.height, 1)];
    radius = Math.min(radius, across * 0.42, down * 0.3);
    d3
      .tree()
      .size([box.width, 1])
      .separation(() => 1)(root);
    const step = Math.min(down, 140);
    const levels = d3.group(root.descendants(), (node) => node.depth);
    for (const node of root.descendants()) {
      const level = levels.get(node.depth);
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

// In which of the trees each transfer runs: one with its chunk and its edge, else with its edge.
function treeOfRows(contents) {
  const {trees, rows} = contents;
  const chunks = trees.map((tree) => new Set(tree.chunks));
  const found = new Int8Array(contents.transfers);
  for (let row = 0; row < contents.transfers && trees.length; row++) {
    const [a, b] = [rows.source[row], rows.target[row]];
    const isEdge = ({parent, ways}) =>
      a === b || (parent[b] === a && ways.includes('down')) || (parent[a] === b && ways.includes('up'));
    const best = trees.findIndex((tree, i) => isEdge(tree) && chunks[i].has(rows.source_chunk[row]));
    found[row] = Math.max(0, best >= 0 ? best : trees.findIndex(isEdge));
  }
  return found;
}
