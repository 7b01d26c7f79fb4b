'use strict';

// Two ways to draw the same picture: on a canvas while it moves, and as SVG to be saved. Shapes are drawn by functions
// that call the path methods of a canvas, which d3.path has too.
//   style: {fill?, stroke?, width?, alpha?, dash?}
class CanvasInk {
  // `zoom` is how many CSS pixels a unit of the picture is.
  constructor(canvas, zoom) {
    Object.assign(this, {canvas, zoom});
    this.context = canvas.getContext('2d');
    this.font = getComputedStyle(document.body).fontFamily;
  }

  // Width and height in units of the picture.
  get size() {
    return [this.canvas.clientWidth / this.zoom, this.canvas.clientHeight / this.zoom];
  }

  // Makes the canvas as sharp as the screen, and empty.
  clear() {
    const {canvas, context} = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const sharp = [width, height].map((length) => Math.round(length * devicePixelRatio));
    if (canvas.width !== sharp[0] || canvas.height !== sharp[1]) [canvas.width, canvas.height] = sharp;
    context.resetTransform();
    context.clearRect(0, 0, canvas.width, canvas.height);
    const scale = devicePixelRatio * this.zoom;
    context.scale(scale, scale);
    context.lineCap = 'round';
  }

  shape(draw, {fill, stroke, width = 1, alpha = 1, dash = []}) {
    const {context} = this;
    context.globalAlpha = alpha;
    context.beginPath();
    draw(context);
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.setLineDash(dash);
      context.stroke();
    }
  }

  text(words, x, y, {fill, size, weight = 400, anchor = 'middle', alpha = 1}) {
    const {context} = this;
    context.globalAlpha = alpha;
    context.font = `${weight} ${size}px ${this.font}`;
    context.textAlign = {start: 'left', middle: 'center', end: 'right'}[anchor];
    context.textBaseline = 'middle';
    context.fillStyle = fill;
    context.fillText(words, x, y + size * 0.05);
  }
}

class SvgInk {
  constructor(width, height, background) {
    this.svg = d3
      .create('svg')
      .attr('width', width)
      .attr('height', height)
      .attr('viewBox', `0 0 ${width} ${height}`)
      .attr('font-family', getComputedStyle(document.body).fontFamily);
    this.svg.append('rect').attr('width', width).attr('height', height).attr('fill', background);
    this.into = this.svg;
  }

  // What follows is drawn relative to this point.
  move(x, y) {
    this.into = this.svg.append('g').attr('transform', `translate(${x},${y})`);
  }

  shape(draw, {fill, stroke, width = 1, alpha = 1, dash = []}) {
    const path = d3.path();
    draw(path);
    const element = this.into
      .append('path')
      .attr('d', path.toString())
      .attr('fill', fill || 'none');
    if (stroke) element.attr('stroke', stroke).attr('stroke-width', width).attr('stroke-linecap', 'round');
    if (stroke && dash.length) element.attr('stroke-dasharray', dash.join(' '));
    if (alpha < 1) element.attr('opacity', alpha);
  }

  text(words, x, y, {fill, size, weight = 400, anchor = 'middle', alpha = 1}) {
    this.into
      .append('text')
      .attr('x', x)
      .attr('y', y + size * 0.05)
      .attr('fill', fill)
      .attr('font-size', size)
      .attr('font-weight', weight)
      .attr('text-anchor', anchor)
      .attr('dominant-baseline', 'central')
      .attr('opacity', alpha)
      .text(words);
  }

  node() {
    return this.svg.node();
  }
}
