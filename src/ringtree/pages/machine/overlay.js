'use strict';

// Channels laid over the picture: an arrow a hop, from GPU to GPU, and between the first and last and their NICs.
/** @typedef {{from: number, to: number, channel: number}} Hop Between two devices. */
const machineOverlay = (() => {
  const COLOURS = ['blue', 'vermillion', 'green', 'orange', 'purple', 'sky', 'ink'];
  const HEADS = ['nvls', 'collnet_direct']; // whose first GPU gathers from all others

  /**
   * In order. A ring that stays inside comes back to where it began; a tree's chain has arrows in both directions.
   * @param {MachineData} data @param {Channels} channels @param {number} channel @returns {Hop[]}
   */
  function hops(data, channels, channel) {
    const gpus = placesOf(data, 'gpu');
    const nics = placesOf(data, 'nic');
    const order = channels.orders[channel].map((rank) => gpus[rank]).filter((device) => device !== undefined);
    if (HEADS.includes(channels.pattern)) return order.slice(1).map((from) => ({from, to: order[0], channel}));
    const [enter, leave] = channels.nics[channel] || [];
    const stops = [...order];
    if (enter !== undefined && nics[enter] !== undefined) stops.unshift(nics[enter]);
    if (leave !== undefined && nics[leave] !== undefined) stops.push(nics[leave]);
    else if (channels.pattern === 'ring' && order.length > 1) stops.push(order[0]);
    return d3.pairs(stops, (from, to) => ({from, to, channel}));
  }

  /** @param {MachineData} data @param {DeviceKind} kind */
  const placesOf = (data, kind) => data.devices.flatMap((d, n) => (d.kind === kind ? [n] : []));

  /**
   * `chosen`: the channels that are drawn, by number.
   * @param {MachineData} data @param {MachineLayout} out @param {Channels} channels @param {number[]} chosen
   * @param {Shell} shell
   */
  function layers(data, out, channels, chosen, {colours}) {
    const apart = Math.min(out.size.words > 1 ? 6 : 2, (out.size.gpu[0] - 14) / chosen.length);
    return chosen.map((channel, i) => {
      const shift = (i - (chosen.length - 1) / 2) * apart;
      const colour = colours[COLOURS[channel % COLOURS.length]];
      const isBoth = channels.pattern !== 'ring';
      const own = hops(data, channels, channel);
      return draw('g', {'data-pattern': channels.pattern, 'data-channel': channel},
        ...own.flatMap((hop, n) => drawHop(data, out, hop, {n, shift, colour, isBoth})));
    });
  }

  /**
   * @param {MachineData} data @param {MachineLayout} out @param {Hop} hop
   * @param {{n: number, shift: number, colour: string, isBoth: boolean}} how the n-th is drawn; with two heads?
   */
  function drawHop(data, out, hop, {n, shift, colour, isBoth}) {
    const [source, target] = [out.at.get(hop.from), out.at.get(hop.to)];
    if (!source || !target) return [];
    const large = out.size.words > 1;
    const size = large ? 5.5 : 3.5;
    const [above, below] = [hop.from, hop.to].map((device) => out.rowOf.get(device) ?? 0);
    const isDown = below > above; // into a row below it comes from above
    const path = machinePicture.bind(draw('path', {
      d: `${machinePicture.below(out, hop.from, hop.to, shift)}`, fill: 'none', stroke: colour,
      'stroke-width': large ? 2.4 : 1.4, opacity: 0.95, 'data-hop': n,
      'data-from': data.devices[hop.from].name, 'data-to': data.devices[hop.to].name,
    }), {hop});
    return [
      path,
      arrow(target.x + target.w / 2 + shift, target.y + (isDown ? 0 : target.h), colour, isDown ? -size : size),
      ...(isBoth ? [arrow(source.x + source.w / 2 + shift, source.y + source.h, colour, size)] : []),
    ];
  }

  /**
   * A head that points up to a device, from the zone below it; down, where the size is negative.
   * @param {number} x @param {number} y @param {string} fill @param {number} size
   */
  const arrow = (x, y, fill, size) =>
    draw('path', {d: `M${x},${y}l${-size * 0.62},${size * 1.5}h${size * 1.24}z`, fill});

  /** The channels whose route no earlier one takes. @param {Channels} channels */
  function distinct({orders, nics}) {
    const routes = orders.map((order, channel) => [...order, ...(nics[channel] || [])].join());
    return d3.range(orders.length).filter((channel) => routes.indexOf(routes[channel]) === channel);
  }

  /** NIC 0 → 0 → 3 → … → NIC 0. @param {Channels} channels @param {number} channel @param {Translate} t */
  function words(channels, channel, t) {
    const [enter, leave] = channels.nics[channel] || [];
    const order = channels.orders[channel];
    if (HEADS.includes(channels.pattern)) return t('machine.head', {gpu: order[0]});
    const shown = order.length > 20 ? [...order.slice(0, 12), '…', ...order.slice(-4)] : [...order];
    if (enter !== undefined) return [`NIC ${enter}`, ...shown, `NIC ${leave}`].join(' → ');
    if (channels.pattern === 'ring' && order.length > 1) shown.push(order[0]);
    return shown.join(' → ');
  }

  return {layers, distinct, words};
})();
