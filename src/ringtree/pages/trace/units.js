'use strict';

// Numbers with their units, and the ticks of the time axis.
const traceUnits = (() => {
  const TIMES = [['s', 1], ['ms', 1e-3], ['µs', 1e-6], ['ns', 1e-9]];
  const BYTES = [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10], ['B', 1]];
  const RATES = [['GB/s', 1e9], ['MB/s', 1e6], ['kB/s', 1e3], ['B/s', 1]];

  const unitOf = (units, value) => units.find(([, size]) => value >= size * (1 - 1e-9)) || units.at(-1);

  function figure(units, value, digits) {
    const [unit, size] = unitOf(units, Math.abs(value));
    const scaled = value / size;
    const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.max(1, Math.abs(scaled)))));
    return `${Number(scaled.toFixed(decimals))} ${unit}`;
  }

  const time = (seconds, digits = 4) => (seconds ? figure(TIMES, seconds, digits) : '0 s');
  const bytes = (count) => figure(BYTES, count, 4);
  const rate = (bytesPerSecond) => figure(RATES, bytesPerSecond, 3);
  const percent = (share) => `${(share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0)} %`;

  // A moment in the unit that suits a window of that width, to `step_s`.
  function moment(seconds, width_s, step_s = 1e-9) {
    if (!seconds && !width_s) return '0 s';
    const [unit, size] = unitOf(TIMES, Math.max(Math.abs(seconds), width_s));
    return `${(seconds / size).toFixed(decimalsFor(step_s / size))} ${unit}`;
  }

  const decimalsFor = (step) => Math.min(12, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));

  // 1, 2 or 5 times a power of ten, the least that is not under `least`.
  function niceStep(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * (1 - 1e-9));
  }

  // Ticks of a window: {base, ticks: [{at_s, text}]}. Where the numbers would be long, they count from `base_s`.
  function axis(start_s, end_s, most) {
    const step = niceStep(Math.max((end_s - start_s) / most, 1e-13));
    const isLong = end_s / step >= 1e5;
    const [unit, size] = unitOf(TIMES, isLong ? step : end_s);
    const first = Math.ceil(start_s / step - 1e-9);
    const coarse = isLong ? niceStep((end_s - start_s) * 2) : 0;
    const base_s = isLong ? Math.floor(start_s / coarse) * coarse : 0;
    const decimals = decimalsFor(step / size);
    const ticks = [];
    for (let i = first; i * step <= end_s * (1 + 1e-15); i++) {
      const text = `${isLong ? '+' : ''}${((i * step - base_s) / size).toFixed(decimals)} ${unit}`;
      ticks.push({at_s: i * step, text});
    }
    return {base: isLong ? moment(base_s, coarse, coarse) : '', ticks};
  }

  return {time, bytes, rate, percent, moment, axis};
})();
