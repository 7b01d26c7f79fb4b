// One chromium, driven from standard input: a line of JSON a request, a line of JSON an answer.
// usage: node driver.mjs FOLDER CHROMIUM      FOLDER: where node_modules/playwright-core lies
//
// {"open": URL, "options": {…}}         a page of its own context (Playwright's options: locale, colorScheme, …)
// {"call": "click", "with": ["#play"]}  a method of the page, or of its keyboard or mouse ("keyboard.press")
// {"download": SELECTOR}                clicks it and answers with the file that comes: {name, base64}
// {"close": true}                       answers with the page's problems: errors, and requests beyond this machine

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, executablePath] = process.argv.slice(2);
const { chromium } = createRequire(`${folder}/`)("playwright-core");
const TIMEOUT_MS = 20_000;
// A window's address bar loads pages of its own, which cost as much as the page that is tested. The flag takes the place
// of Playwright's, whose features matter where pages come from a network; Translate may show itself on any.
const ABSENT = ["WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "Translate"];

const browser = await chromium.launch({ executablePath, args: [`--disable-features=${ABSENT}`] });
let page, problems;

async function open(url, options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(TIMEOUT_MS);
  page = await context.newPage();
  problems = [];
  page.on("console", message => {
    if (["error", "warning"].includes(message.type())) problems.push(`console ${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", error => problems.push(`error: ${error.stack ?? error}`));
  context.on("request", request => {
    if (!/^(file|data|blob):/.test(request.url())) problems.push(`request: ${request.url()}`);
  });
  await page.goto(url);
}

async function call(path, args) {
  const names = path.split(".");
  const method = names.pop();
  const owner = names.reduce((object, name) => object[name], page);
  const value = await owner[method](...args);
  const plain = value === null || typeof value !== "object" || Array.isArray(value) || value.constructor === Object;
  return plain ? value : null; // a handle of Playwright's means nothing outside
}

async function download(selector) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.click(selector)]);
  return { name: file.suggestedFilename(), base64: readFileSync(await file.path()).toString("base64") };
}

async function answer(request) {
  if ("open" in request) return open(request.open, request.options);
  if ("call" in request) return call(request.call, request.with);
  if ("download" in request) return download(request.download);
  await page.context().close();
  return problems;
}

console.log(JSON.stringify({ value: browser.version() }));
for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify({ value: (await answer(JSON.parse(line))) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.message ?? error) }));
  }
}
await browser.close();
