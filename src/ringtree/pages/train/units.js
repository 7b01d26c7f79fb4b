'use strict';

// Figures in words.
const trainUnits = (() => {
  // 1.41 KiB: three figures, in the largest unit that leaves at least 1.
  function scaled(value, base, units) {
    let power = 0;
    while (Math.abs(value) >= base && power < units.length - 1) {
      value /= base;
      power++;
    }
    const figures = value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
    return `${figures} ${units[power]}`;
  }

  return {
    size: (nbytes) => scaled(nbytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']),
    time: (s) => scaled(s * 1e9, 1000, ['ns', 'µs', 'ms', 's']),
    percent: (share) => `${(100 * share).toFixed(1)} %`,
    loss: (value) => (typeof value === 'number' ? value.toFixed(4) : String(value)),
  };
})();
