'use strict';

/**
 * The routes of a copy from one GPU to another, side by side: the memories and cards that it goes through.
 * @param {MachineData} data @param {Shell} shell
 */
function machineRoutes({ways: routes, between: [from, to]}, {t}) {
  const heads = ['machine.way', 'machine.stops', 'machine.bandwidth', 'machine.of_1MiB', 'machine.copies'];
  const rows = routes.map((route) => make(
    `tr${route.applies ? '.taken' : ''}`,
    {title: route.why, data: {way: route.way, stops: route.stops, applies: route.applies}},
    make('td', {}, route.applies ? '✓' : ''),
    make('th', {}, route.way),
    make('td.number', {}, String(route.stops)),
    make('td.number', {}, figures.rate(route.bandwidth_Bps)),
    make('td.number', {}, figures.time(route.MiB_s)),
    make('td', {}, machineChain(route, t)),
  ));
  const title = make('h2', {}, t('machine.ways', {from, to}));
  return [title, table('table.machine-ways', ['', ...heads.map((key) => t(key))], rows)];
}

/**
 * A chip a memory or card, an arrow a copy; where the data lands in a memory, the chip is filled.
 * @param {DeviceWay} way @param {Translate} t
 */
function machineChain({copies, bandwidth_Bps: least_Bps}, t) {
  const steps = copies.flatMap(({what, by, target, bandwidth_Bps, latency_s, lands}) => {
    const isSlow = bandwidth_Bps <= least_Bps * 1.0001;
    const title = t('machine.copy', {what, by, rate: figures.rate(bandwidth_Bps), latency: figures.time(latency_s)});
    const data = {copy: what, by, bandwidthBps: bandwidth_Bps};
    return [
      make(`span.arrow${isSlow ? '.slow' : ''}`, {title, data}, make('small', {}, what), ' → '),
      make(`span.chip${lands ? '.memory' : ''}`, {}, target),
    ];
  });
  const first = copies.slice(0, 1).map(({source}) => make('span.chip.memory', {}, source));
  return make('div.machine-chain', {}, ...first, ...steps);
}
