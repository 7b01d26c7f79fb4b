'use strict';

// Numbers in words, with their units.
const figures = (() => {
  /** @typedef {[name: string, size: number][]} Units The largest first. */
  /** @type {Units} */
  const TIMES = [['s', 1], ['ms', 1e-3], ['µs', 1e-6], ['ns', 1e-9]];
  /** @type {Units} */
  const BYTES = [['TiB', 2 ** 40], ['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10], ['B', 1]];
  /** @type {Units} */
  const RATES = [['TB/s', 1e12], ['GB/s', 1e9], ['MB/s', 1e6], ['kB/s', 1e3], ['B/s', 1]];
  /** @type {Units} */
  const LINE_RATES = [['Tb/s', 1.25e11], ['Gb/s', 1.25e8], ['Mb/s', 1.25e5]];

  /** The largest unit that leaves at least 1, once it is rounded. @param {Units} units @param {number} value */
  const unitOf = (units, value, rounding = 1e-9) =>
    units.find(([, size]) => Math.abs(value) >= size * (1 - rounding)) ?? units[units.length - 1];

  /**
   * 1.41 KiB: so many digits, and no zeros at the end.
   * @param {Units} units @param {number} value @param {number} digits
   */
  function figure(units, value, digits) {
    const [unit, size] = unitOf(units, value, 0.5 / 10 ** digits);
    const scaled = value / size;
    const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.max(1, Math.abs(scaled)))));
    return `${Number(scaled.toFixed(decimals))} ${unit}`;
  }

  /** @param {number} nbytes */
  const bytes = (nbytes, digits = 3) => figure(BYTES, nbytes, digits);
  /** @param {number} seconds */
  const time = (seconds, digits = 3) => (seconds ? figure(TIMES, seconds, digits) : '0 s');
  /** @param {number} Bps */
  const rate = (Bps) => figure(RATES, Bps, 3);
  /** In bits, as cables are sold. @param {number} Bps */
  const lineRate = (Bps) => figure(LINE_RATES, Bps, 3);
  /** @param {number} share */
  const percent = (share, decimals = share > 0 && share < 0.1 ? 1 : 0) => `${(share * 100).toFixed(decimals)} %`;

  /** A time to a step, in the unit that suits another. @param {number} seconds @param {number} of_s */
  function moment(seconds, of_s, step_s = 1e-9) {
    if (!seconds && !of_s) return '0 s';
    const [unit, size] = unitOf(TIMES, of_s);
    const decimals = Math.ceil(-Math.log10(step_s / size) - 1e-9);
    return `${(seconds / size).toFixed(Math.min(12, Math.max(0, decimals)))} ${unit}`;
  }

  return {bytes, time, rate, lineRate, percent, moment};
})();
