'use strict';

// Channels laid over the picture: an arrow a hop, from GPU to GPU, and between the first and last and their NICs.
const machineOverlay = (() => {
  const {channelColour} = machineUnits;

  const HEADS = ['nvls', 'collnet_direct']; // whose first GPU gathers from all others

  // [{from, to}] by device, in order. A ring that stays inside comes back to where it began; a tree's chain leads both
  // ways, which its arrows say.
  function hops(data, channels, channel) {
    const gpus = placesOf(data, 'gpu');
    const nics = placesOf(data, 'nic');
    const order = channels.orders[channel].map((rank) => gpus[rank]).filter((device) => device !== undefined);
    if (HEADS.includes(channels.pattern)) return order.slice(1).map((from) => ({from, to: order[0]}));
    const [enter, leave] = channels.nics[channel] || [];
    const stops = [...order];
    if (enter !== undefined && nics[enter] !== undefined) stops.unshift(nics[enter]);
    if (leave !== undefined && nics[leave] !== undefined) stops.push(nics[leave]);
    else if (channels.pattern === 'ring' && order.length > 1) stops.push(order[0]);
    return d3.pairs(stops).map(([from, to]) => ({from, to}));
  }

  const placesOf = (data, kind) => data.devices.flatMap((d, n) => (d.kind === kind ? [n] : []));

  // `chosen`: the channels that are drawn, by number.
  function draw(g, data, out, channels, chosen, {colours}) {
    g.selectChildren().remove();
    const both = channels.pattern !== 'ring';
    for (const [i, channel] of chosen.entries()) {
      const own = g.append('g').attr('data-pattern', channels.pattern).attr('data-channel', channel);
      const shift = (i - (chosen.length - 1) / 2) * Math.min(out.size.words > 1 ? 6 : 2, (out.size.gpu[0] - 14) / chosen.length);
      const colour = colours[channelColour(channel)];
      hops(data, channels, channel).forEach((hop, n) => drawHop(own, data, out, hop, {n, channel, shift, colour, both}));
    }
  }

  function drawHop(g, data, out, {from, to}, {n, channel, shift, colour, both}) {
    if (!out.at.has(from) || !out.at.has(to)) return;
    const path = machinePicture.below(out, from, to, shift);
    g.append('path').attr('d', path).attr('fill', 'none').attr('stroke', colour).attr('stroke-width', out.size.words > 1 ? 2.4 : 1.4)
      .attr('opacity', 0.95).attr('data-hop', n).attr('data-from', data.devices[from].name).attr('data-to', data.devices[to].name)
      .datum({hop: {from, to, channel}});
    const target = out.at.get(to);
    const source = out.at.get(from);
    const size = out.size.words > 1 ? 5.5 : 3.5;
    const down = out.rowOf.get(to) > out.rowOf.get(from); // into a row below it comes from above
    arrow(g, target.x + target.w / 2 + shift, target.y + (down ? 0 : target.h), colour, down ? -size : size);
    if (both) arrow(g, source.x + source.w / 2 + shift, source.y + source.h, colour, size);
  }

  // A head that points up to a device, from the zone below it; down, where the size is negative.
  function arrow(g, x, y, colour, size) {
    g.append('path').attr('d', `M${x},${y}l${-size * 0.62},${size * 1.5}h${size * 1.24}z`).attr('fill', colour);
  }

  // The channels whose way no earlier one takes.
  function distinct({orders, nics}) {
    const ways = orders.map((order, channel) => [...order, ...(nics[channel] || [])].join());
    return d3.range(orders.length).filter((channel) => ways.indexOf(ways[channel]) === channel);
  }

  // NIC 0 → 0 → 3 → … → NIC 0
  function words(channels, channel, t) {
    const [enter, leave] = channels.nics[channel] || [];
    const order = channels.orders[channel];
    if (HEADS.includes(channels.pattern)) return t('machine.head', {gpu: order[0]});
    const shown = order.length > 20 ? [...order.slice(0, 12), '…', ...order.slice(-4)] : [...order];
    if (enter !== undefined) return [`NIC ${enter}`, ...shown, `NIC ${leave}`].join(' → ');
    if (channels.pattern === 'ring' && order.length > 1) shown.push(order[0]);
    return shown.join(' → ');
  }

  return {draw, distinct, words};
})();
