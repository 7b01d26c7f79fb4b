'use strict';

// Figures with their units, colours of links and paths, and elements made in one line.
const machineUnits = (() => {
  const RATES = [['TB/s', 1e12], ['GB/s', 1e9], ['MB/s', 1e6], ['kB/s', 1e3], ['B/s', 1]];
  const LINE_RATES = [['Tb/s', 1.25e11], ['Gb/s', 1.25e8], ['Mb/s', 1.25e5]];
  const TIMES = [['s', 1], ['ms', 1e-3], ['µs', 1e-6], ['ns', 1e-9]];

  function figure(units, value) {
    const [unit, size] = units.find(([, one]) => value >= one * (1 - 5e-4)) || units.at(-1);
    const scaled = value / size;
    return `${scaled >= 999.5 ? scaled.toFixed(0) : Number(scaled.toPrecision(3))} ${unit}`;
  }

  const LINKS = {
    pcie: 'blue', nvlink: 'green', xgmi: 'green', c2c: 'purple', cpu: 'orange', shm: 'muted', ethernet: 'sky', infiniband: 'sky',
  };
  // The hue of a path of that kind, and how much of it there is.
  const PATHS = {
    LOC: ['muted', 0.1], NVL: ['green', 0.85], NVB: ['green', 0.45], C2C: ['purple', 0.7], PIX: ['blue', 0.8], PXB: ['blue', 0.5],
    P2C: ['purple', 0.45], PXN: ['sky', 0.7], PHB: ['orange', 0.7], SYS: ['vermillion', 0.7], NET: ['sky', 0.4], DIS: ['muted', 0.15],
  };
  const CHANNELS = ['blue', 'vermillion', 'green', 'orange', 'purple', 'sky', 'ink'];

  const {make} = ringtree;

  return {
    LINKS,
    PATHS,
    make,
    rate: (Bps) => figure(RATES, Bps),
    lineRate: (Bps) => figure(LINE_RATES, Bps),
    time: (s) => (s ? figure(TIMES, s) : '0 s'),
    channelColour: (channel) => CHANNELS[channel % CHANNELS.length],
  };
})();
