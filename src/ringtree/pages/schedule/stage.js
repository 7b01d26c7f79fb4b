'use strict';

// The stage: the participants where a layout has put them, the links that the schedule uses, and the chunks of one
// round on their way. Drawn by an ink, so that what moves on a canvas is saved as SVG by the same lines. What stands
// still during a round has a canvas of its own, so that a frame is no more than its chunks.
/** @typedef {{x0: number, y0: number, cx: number, cy: number, x1: number, y1: number}} Way A quadratic curve. */
/** @typedef {{row: number, rank: number}} Focus What is pointed at, or -1. */
/**
 * A transfer of the round that is shown; `first` and `last` of the round's time are its own.
 * @typedef {{row: number, way: Way, colour: string, pair: number, first: number, last: number}} Moving
 */
/** @typedef {Point & Pick<Moving, 'row' | 'pair'> & {t: number}} ChunkPlace `t` of its path is done. */
class Stage {
  static MOST_LINKS = 400;
  static MOST_LABELS = 96;
  static TREES = ['blue', 'orange'];

  /** @type {LayoutName} */
  layout = 'ring';
  size = [0, 0];
  /** @type {Moving[]} */
  moving = [];
  /** @type {[colour: string, group: Moving[]][]} */
  byColour = [];

  /** @param {Contents} contents @param {Shell} shell */
  constructor(contents, shell) {
    this.contents = contents;
    this.shell = shell;
    this.treeOf = treeOfRows(contents);
    this.links = this.#distinctLinks();
    this.geometry = place(this.layout, contents, 0, 0);
  }

  /** @param {LayoutName} layout @param {number} width @param {number} height */
  arrange(layout, width, height) {
    this.layout = layout;
    this.size = [width, height];
    this.geometry = place(layout, this.contents, width, height);
  }

  // One row for each pair of which one sends to the other; none where there are too many to make out.
  #distinctLinks() {
    const {rows, participants} = this.contents;
    /** @type {Map<number, number>} */
    const found = new Map();
    for (let row = 0; row < this.contents.transfers && found.size <= Stage.MOST_LINKS; row++) {
      const pair = rows.source[row] * participants + rows.target[row];
      if (rows.source[row] !== rows.target[row] && !found.has(pair)) found.set(pair, row);
    }
    return found.size > Stage.MOST_LINKS ? [] : [...found.values()];
  }

  /**
   * The path of one transfer: a curve from node to node, to the left of the straight line, so that the two directions
   * of an exchange do not lie on each other. A copy within a rank is a loop beside it, away from the middle.
   * @param {number} row @returns {Way | null}
   */
  way(row) {
    const {rows} = this.contents;
    const {geometry} = this;
    const [a, b] = [rows.source[row], rows.target[row]].map((rank) => geometry.node(rank, this.treeOf[row]));
    if (!a || !b) return null;
    const r = geometry.radius;
    if (a === b) return this.#loop(a, r);
    const bend = geometry.bend(a, b);
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const [cx, cy] = [(a.x + b.x) / 2 + 2 * bend * dy, (a.y + b.y) / 2 - 2 * bend * dx];
    const from = towards(a, cx, cy, r + 2);
    const to = towards(b, cx, cy, r + 4);
    return {x0: from.x, y0: from.y, cx, cy, x1: to.x, y1: to.y};
  }

  /** @param {Point} node @param {number} r @returns {Way} */
  #loop({x, y}, r) {
    const away = Math.atan2(y - this.size[1] / 2, x - this.size[0] / 2 || 0.001);
    /** @param {number} angle @param {number} far */
    const at = (angle, far) => [x + far * Math.cos(away + angle), y + far * Math.sin(away + angle)];
    const [[x0, y0], [cx, cy], [x1, y1]] = [at(-0.7, r + 2), at(0, r * 2.6 + 8), at(0.7, r + 4)];
    return {x0, y0, cx, cy, x1, y1};
  }

  isByTree() {
    return this.layout === 'trees' && this.contents.trees.length > 1;
  }

  /** Trees differ in colour; without them, additions from stores. @param {number} row */
  colour(row) {
    if (this.isByTree()) return Stage.TREES[this.treeOf[row]];
    return this.contents.rows.reduce[row] ? 'orange' : 'blue';
  }

  /** All but the chunks while `round` is under way. @param {Ink} ink @param {number} round @param {Focus} focus */
  paintStill(ink, round, focus) {
    this.moving = round < 0 ? [] : this.#queues(round);
    this.byColour = d3.groups(this.moving, ({colour}) => colour);
    this.#paintFrames(ink);
    this.#paintLinks(ink);
    this.#paintWays(ink, focus);
    this.#paintNodes(ink, focus);
    this.#paintLegend(ink);
  }

  /** Transfers of a round on the same path go one behind the other. @param {number} round @returns {Moving[]} */
  #queues(round) {
    const {rows, roundFirst, participants} = this.contents;
    const found = d3.range(roundFirst[round], roundFirst[round + 1]).flatMap((row) => {
      const way = this.way(row);
      const pair = rows.source[row] * participants + rows.target[row];
      return way ? [{row, way, pair, colour: this.colour(row), first: 0, last: 1}] : [];
    });
    for (const queue of d3.group(found, ({pair}) => pair).values()) {
      const apart = Math.min(0.12, 0.6 / queue.length);
      queue.forEach((moving, k) => {
        [moving.first, moving.last] = [k * apart, 1 - (queue.length - 1 - k) * apart];
      });
    }
    return found;
  }

  /** @param {Ink} ink */
  #paintLegend(ink) {
    const {colours, t} = this.shell;
    const isPlain = !this.isByTree();
    const [x, y] = [24, this.size[1] - 20];
    ink.shape((p) => disc(p, x, y, 7), {fill: colours[isPlain ? 'orange' : 'muted']});
    ink.text('+', x, y - 1, {fill: colours[isPlain ? 'on-orange' : 'surface'], size: 12, weight: 700});
    ink.text(t('schedule.legend_add'), x + 16, y, {fill: colours.muted, size: 12, anchor: 'start'});
    ink.shape((p) => roundedRect(p, x + 82.5, y - 6.5, 13, 13, 2), {fill: colours[isPlain ? 'blue' : 'muted']});
    ink.text(t('schedule.legend_store'), x + 105, y, {fill: colours.muted, size: 12, anchor: 'start'});
  }

  /** @param {Ink} ink */
  #paintFrames(ink) {
    for (const frame of this.geometry.frames) {
      if (frame.tree !== undefined) this.#paintTreeTitle(ink, frame.tree, frame);
      if (frame.host !== undefined) this.#paintHost(ink, frame.host, frame);
    }
  }

  /** @param {Ink} ink @param {number} host @param {Box} box */
  #paintHost(ink, host, {x, y, width, height}) {
    const {colours, t} = this.shell;
    const style = {fill: colours.muted, size: 13, weight: 600};
    ink.shape((p) => roundedRect(p, x, y, width, height, 12), {fill: colours.raised, stroke: colours.line});
    ink.text(t('schedule.host', {host}), x + 14, y + 18, {...style, anchor: 'start'});
  }

  /** @param {Ink} ink @param {number} tree @param {Box} box */
  #paintTreeTitle(ink, tree, {x, y, width}) {
    const {colours} = this.shell;
    const middle = x + width / 2;
    ink.text(this.#treeTitle(tree), middle, y, {fill: colours.ink, size: 13, weight: 600});
    if (!this.isByTree()) return;
    ink.shape((p) => roundedRect(p, middle - 24, y + 11, 48, 4, 2), {fill: colours[Stage.TREES[tree]]});
  }

  /** @param {number} index */
  #treeTitle(index) {
    const {t} = this.shell;
    const {trees, chunks: all} = this.contents;
    const {chunks, ways} = trees[index];
    if (trees.length === 1 && chunks.length === all) return t('schedule.tree_all');
    const arrow = ways.length === 1 ? {up: ' ↑', down: ' ↓'}[ways[0]] : '';
    const words = {tree: index + 1, chunks: spans(chunks), ways: arrow};
    return t(chunks.length > 1 ? 'schedule.tree' : 'schedule.tree_of_one', words);
  }

  /** @param {Ink} ink */
  #paintLinks(ink) {
    const {colours} = this.shell;
    const width = this.geometry.radius > 8 ? 1.5 : 1;
    if (this.layout !== 'trees') {
      const ways = this.links.map((row) => this.way(row));
      ink.shape((p) => ways.forEach((way) => way && curve(p, way)), {stroke: colours.line, width});
      return;
    }
    this.contents.trees.forEach((_, tree) => {
      const tint = this.isByTree()
        ? d3.interpolateRgb(colours.surface, colours[Stage.TREES[tree]])(0.35)
        : colours.line;
      ink.shape((p) => this.#drawEdges(p, tree), {stroke: tint, width});
    });
  }

  /** @param {Pencil} p @param {number} tree */
  #drawEdges(p, tree) {
    const {parent} = this.contents.trees[tree];
    for (const node of this.geometry.nodes) {
      if (node.tree !== tree || parent[node.rank] < 0) continue;
      const above = this.geometry.node(parent[node.rank], tree) ?? node;
      p.moveTo(node.x, node.y);
      p.lineTo(above.x, above.y);
    }
  }

  /**
   * One SVG path for all paths of a colour: hundreds of them cost as little as a few.
   * @param {Ink} ink @param {Focus} focus
   */
  #paintWays(ink, focus) {
    const {colours} = this.shell;
    const many = this.moving.length > 80;
    const head = Math.max(4, Math.min(9, this.geometry.radius * 0.55));
    for (const [colour, group] of this.byColour) {
      const style = {stroke: colours[colour], width: many ? 1 : 2, alpha: many ? 0.45 : 0.75};
      ink.shape((p) => group.forEach(({way}) => curve(p, way)), style);
      ink.shape((p) => group.forEach(({way}) => arrowHead(p, way, head)), {
        fill: colours[colour],
        alpha: many ? 0.6 : 1,
      });
    }
    const pointed = focus.row >= 0 ? this.way(focus.row) : null;
    if (pointed) {
      ink.shape((p) => curve(p, pointed), {stroke: colours.ink, width: 4});
      ink.shape((p) => arrowHead(p, pointed, head * 1.4), {fill: colours.ink});
    }
  }

  /** @param {Ink} ink @param {Focus} focus */
  #paintNodes(ink, focus) {
    const {contents, geometry} = this;
    const {colours} = this.shell;
    const r = geometry.radius;
    const every = 4 * Math.ceil(contents.ranks / 64);
    for (const node of geometry.nodes) {
      const {rank, x, y} = node;
      const isSwitch = rank >= contents.ranks;
      const {share, complete} = contents.progress(rank);
      const outline = rank === focus.rank ? colours.ink : colours['line-strong'];
      const ring = Math.max(1.5, r * 0.16);
      ink.shape((p) => (isSwitch ? p.rect(x - r, y - r, 2 * r, 2 * r) : disc(p, x, y, r)), {
        fill: complete ? colours['green-tint'] : colours.surface,
        stroke: outline,
        width: rank === focus.rank ? ring * 1.6 : ring,
      });
      if (share > 0) {
        ink.shape((p) => p.arc(x, y, r, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * Math.min(share, 0.9999)), {
          stroke: colours[complete ? 'green' : 'blue'],
          width: ring * 1.3,
        });
      }
      if (r >= 6) {
        ink.text(rankName(contents, rank), x, y, {
          fill: colours.ink,
          size: Math.max(8, Math.min(15, r * 0.8)),
          weight: 600,
        });
      } else if (node.isNamed ?? rank % every === 0) {
        this.#paintOuterName(ink, node, r);
      }
    }
  }

  /**
   * A number beside a node too small for it: below a leaf, left of another in a tree, else away from the middle.
   * @param {Ink} ink @param {Spot} node @param {number} r
   */
  #paintOuterName(ink, {rank, x, y, isLeaf}, r) {
    let [dx, dy] = isLeaf ? [0, 1] : [-1, -0.6];
    if (isLeaf === undefined) [dx, dy] = [x - this.size[0] / 2, y - this.size[1] / 2];
    const far = (r + 10) / (Math.hypot(dx, dy) || 1);
    ink.text(rankName(this.contents, rank), x + dx * far, y + dy * far, {fill: this.shell.colours.muted, size: 10});
  }

  /**
   * The chunks of the round that paintStill drew, `progress` of their path done.
   * @param {Ink} ink @param {number} progress
   */
  paintChunks(ink, progress) {
    const {colours} = this.shell;
    const labelled = this.moving.length <= Stage.MOST_LABELS && this.geometry.radius >= 12;
    const r = labelled
      ? Math.min(14, Math.max(10, this.geometry.radius * 0.5))
      : Math.max(2.5, Math.min(6, this.geometry.radius * 0.5));
    const outline = {stroke: this.moving.length < 400 ? colours.surface : '', width: labelled ? 1.5 : 0.8};
    /** @param {Moving} moving @returns {ChunkPlace} */
    const at = ({row, pair, way, first, last}) => {
      const t = d3.easeCubicInOut(Math.max(0, Math.min(1, (progress - first) / (last - first))));
      return {row, pair, t, ...pointOn(way, t)};
    };
    for (const [colour, group] of this.byColour) {
      const style = {fill: colours[colour], ...outline};
      if (labelled) this.#paintLabelled(ink, group.map(at), r, style, colours[`on-${colour}`]);
      else ink.shape((p) => group.forEach((moving) => this.#drawChunk(p, at(moving), r, r)), style);
    }
  }

  /**
   * One after the other, so that of two that overlap one can be read.
   * @param {Ink} ink @param {ChunkPlace[]} places @param {number} r @param {Style} style @param {string} fill
   */
  #paintLabelled(ink, places, r, style, fill) {
    for (const heap of this.#heaps(places)) {
      const words = this.#chunkNames(heap.map(({row}) => row));
      ink.shape((p) => this.#drawChunk(p, heap[0], Math.max(r, words.length * 3.4 + 4), r), style);
      ink.text(words, heap[0].x, heap[0].y, {fill, size: 11, weight: 700});
    }
  }

  /**
   * Those of one path that have not left, and those that are there, lie on each other: a heap has one label.
   * @param {ChunkPlace[]} places
   */
  #heaps(places) {
    const {reduce} = this.contents.rows;
    /** @param {ChunkPlace} place */
    const heapOf = ({row, pair, t}) => (t % 1 ? row : `${pair} ${t} ${reduce[row]}`);
    return [...d3.group(places, heapOf).values()];
  }

  /** @param {Pencil} p @param {ChunkPlace} place @param {number} half @param {number} r */
  #drawChunk(p, {row, x, y}, half, r) {
    if (this.contents.rows.reduce[row]) roundedRect(p, x - half, y - r, 2 * half, 2 * r, r);
    else roundedRect(p, x - half * 0.92, y - r * 0.92, half * 1.84, r * 1.84, r * 0.3);
  }

  /** @param {number[]} heap */
  #chunkNames(heap) {
    const {source_chunk: first, count, reduce} = this.contents.rows;
    const chunks = new Set(heap.flatMap((row) => d3.range(first[row], first[row] + count[row])));
    const runs = spans(d3.sort(chunks)).split(', ');
    return (reduce[heap[0]] ? '+' : '') + (runs.length > 3 ? `${runs.slice(0, 2).join(', ')} …` : runs.join(', '));
  }

  /**
   * What is at a point: a transfer of the round that was painted last, or a rank.
   * @param {number} x @param {number} y @returns {Focus}
   */
  hit(x, y) {
    const node = this.geometry.nodes.find((n) => Math.hypot(n.x - x, n.y - y) <= this.geometry.radius + 3);
    if (node) return {row: -1, rank: node.rank};
    let best = {row: -1, rank: -1, far: 10};
    for (const {row, way} of this.moving) {
      for (let i = 0; i <= 16; i++) {
        const at = pointOn(way, i / 16);
        const far = Math.hypot(at.x - x, at.y - y);
        if (far < best.far) best = {row, rank: -1, far};
      }
    }
    return best;
  }
}

/** @param {Point} node @param {number} x @param {number} y @param {number} far */
function towards(node, x, y, far) {
  const length = Math.hypot(x - node.x, y - node.y) || 1;
  return {x: node.x + ((x - node.x) * far) / length, y: node.y + ((y - node.y) * far) / length};
}

/** @param {Way} way @param {number} t */
function pointOn({x0, y0, cx, cy, x1, y1}, t) {
  const u = 1 - t;
  return {x: u * u * x0 + 2 * u * t * cx + t * t * x1, y: u * u * y0 + 2 * u * t * cy + t * t * y1};
}

/** @param {Pencil} p @param {number} x @param {number} y @param {number} r */
function disc(p, x, y, r) {
  p.moveTo(x + r, y);
  p.arc(x, y, r, 0, 2 * Math.PI);
}

/**
 * @param {Pencil} p @param {number} x @param {number} y @param {number} width @param {number} height @param {number} r
 */
function roundedRect(p, x, y, width, height, r) {
  p.moveTo(x + r, y);
  p.arcTo(x + width, y, x + width, y + height, r);
  p.arcTo(x + width, y + height, x, y + height, r);
  p.arcTo(x, y + height, x, y, r);
  p.arcTo(x, y, x + width, y, r);
  p.closePath();
}

/** @param {Pencil} p @param {Way} way */
function curve(p, {x0, y0, cx, cy, x1, y1}) {
  p.moveTo(x0, y0);
  p.quadraticCurveTo(cx, cy, x1, y1);
}

/** @param {Pencil} p @param {Way} way @param {number} size */
function arrowHead(p, {cx, cy, x1, y1}, size) {
  const angle = Math.atan2(y1 - cy, x1 - cx);
  p.moveTo(x1, y1);
  for (const side of [-1, 1])
    p.lineTo(x1 - size * Math.cos(angle + side * 0.45), y1 - size * Math.sin(angle + side * 0.45));
  p.closePath();
}
