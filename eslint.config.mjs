// What the scripts of the pages, and what drives the browser in their tests, are linted by (make check).
import {createRequire} from 'node:module';

const {configs} = createRequire(new URL('build/browser/', import.meta.url))('@eslint/js');

export default [
  {ignores: ['.venv/', 'build/', '**/*.min.js']},
  configs.recommended,
  {
    rules: {
      'array-callback-return': 'error',
      'eqeqeq': ['error', 'always', {null: 'ignore'}],
      'no-shadow': 'error',
      'no-unused-expressions': 'error',
      'no-var': 'error',
      'object-shorthand': 'error',
      'prefer-const': 'error',
      'prefer-template': 'error',
    },
  },
  {
    files: ['**/*.js'], // a page's scripts: those of a view share one scope, which tsc looks over
    languageOptions: {sourceType: 'script'},
    rules: {'no-undef': 'off', 'no-unused-vars': ['error', {vars: 'local'}]},
  },
  {files: ['**/*.mjs'], languageOptions: {globals: {URL: 'readonly', console: 'readonly', process: 'readonly'}}},
];
