// What the tests of the console stand on: a server with a data directory of its own, a browser, and what every page is held to.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import { createServer } from 'node:net';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
const modules = createRequire(join(process.env.DRAGOMAN_CONSOLE_MODULES ?? join(root, '.runtime/console'), 'package.json'));
const puppeteer = modules('puppeteer-core');
const axe = readFileSync(modules.resolve('axe-core/axe.min.js'), 'utf8');
const screens = join(process.env.DRAGOMAN_CONSOLE_MODULES ?? join(root, '.runtime/console'), 'screens');

export const WIDE = { width: 1280, height: 860 };
const PHONE = { width: 390, height: 844 };
const WAIT_MS = 60_000;
const WEBGL_IN_SOFTWARE = ['--use-angle=swiftshader', '--enable-unsafe-swiftshader'];

/** The server under test. It can be stopped and started again on its port and its data. */
export class Server {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'dragoman-console-'));
  }

  async start() {
    this.port ??= await freePort();
    this.base = `http://127.0.0.1:${this.port}`;
    const built = ['release', 'debug'].map((kind) => join(root, 'target', kind, 'dragoman')).find(existsSync);
    const program = process.env.DRAGOMAN_PROGRAM ?? built;
    assert.ok(program, 'no program: build it, or name it in DRAGOMAN_PROGRAM');
    const runtime = join(root, '.runtime/onnxruntime/libonnxruntime.so');
    const env = { ...process.env, ...(!process.env.ORT_DYLIB_PATH && existsSync(runtime) && { ORT_DYLIB_PATH: runtime }) };
    this.process = spawn(program, ['serve', '--listen', `127.0.0.1:${this.port}`, '--data', this.folder, '--model', join(root, 'models/ems-small')], { cwd: root, env, stdio: 'ignore' });
    await until('the server is ready', async () => (await fetch(`${this.base}/readyz`)).ok);
  }

  async stop() {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = new Promise((done) => this.process.once('exit', done));
    this.process.kill('SIGTERM');
    await ended;
  }

  async remove() {
    await this.stop();
    rmSync(this.folder, { recursive: true });
  }

  /** A request of the test itself, not of the console. */
  async call(method, path, body) {
    const sent = typeof body === 'string' ? body : JSON.stringify(body);
    const answer = await fetch(this.base + path, { method, body: sent, headers: { 'content-type': typeof body === 'string' ? 'application/x-ndjson' : 'application/json' } });
    assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
    return answer.status === 204 ? null : answer.json();
  }
}

/** A reverse proxy that serves a server below a path, and nothing elsewhere. */
export class Proxy {
  static async start(server, path) {
    const proxy = new Proxy();
    proxy.listener = http.createServer((request, response) => {
      if (!request.url.startsWith(`${path}/`)) return response.writeHead(404).end();
      const { method, headers } = request;
      return request.pipe(http.request(server + request.url.slice(path.length), { method, headers }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      }));
    });
    await new Promise((done) => proxy.listener.listen(0, '127.0.0.1', done));
    proxy.base = `http://127.0.0.1:${proxy.listener.address().port}${path}`;
    return proxy;
  }

  stop() {
    this.listener.closeAllConnections();
    this.listener.close();
  }
}

/** A browser with one page. Whatever breaks the policy, leaves the server or throws is noted in `wrongs`. */
export class Stage {
  static async open(base, graphics = WEBGL_IN_SOFTWARE) {
    const stage = new Stage();
    stage.base = base;
    stage.wrongs = [];
    stage.browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--hide-scrollbars', ...graphics] });
    stage.page = await stage.browser.newPage();
    const { page, wrongs } = stage;
    await page.setViewport(WIDE);
    await page.emulateMediaFeatures([{ name: 'prefers-reduced-motion', value: 'reduce' }]);
    await stage.browser.defaultBrowserContext().overridePermissions(base, ['clipboard-read', 'clipboard-write', 'clipboard-sanitized-write']);
    await page.evaluateOnNewDocument(() => {
      window.violations = [];
      document.addEventListener('securitypolicyviolation', (event) => window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
    });
    page.on('pageerror', (error) => wrongs.push(`error in the page: ${error.message}`));
    page.on('console', (message) => {
      // Answers that refuse something are tested as such; the browser notes each of them.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) wrongs.push(`console: ${message.text()}`);
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(`${base}/`) && !/^(blob:|data:)/.test(request.url())) wrongs.push(`request to ${request.url()}`);
    });
    return stage;
  }

  async visit(address) {
    await this.page.goto('about:blank');
    await this.page.goto(`${this.base}/${address}`, { waitUntil: 'networkidle2' });
  }

  /** The element with this role and name, as assistive technology finds it. */
  find(name, role = 'button') {
    return this.page.locator(`::-p-aria([name="${name}"][role="${role}"])`).setTimeout(WAIT_MS);
  }

  press(name, role) {
    return this.find(name, role).click();
  }

  write(name, text, role = 'textbox') {
    return this.find(name, role).fill(text);
  }

  /** Waits until the page shows a text. */
  async sees(text) {
    await this.page.waitForFunction((wanted) => document.body.innerText.includes(wanted), { timeout: WAIT_MS }, text)
      .catch(async () => assert.fail(`the page does not show "${text}" but ${await this.page.evaluate(() => document.body.innerText.slice(0, 1500))}`));
  }

  /** A picture of the page as it is. */
  async picture(name) {
    mkdirSync(screens, { recursive: true });
    await this.page.screenshot({ path: join(screens, `${name}.png`) });
  }

  /** Lets `answer` reply to requests to the API, with what is to be sent as JSON; where it gives nothing, the server replies. Ends with the function that it gives. */
  async answering(answer) {
    const hear = (request) => {
      const url = new URL(request.url());
      const body = url.pathname.startsWith('/v1/') ? answer(request.method(), url) : undefined;
      if (body === undefined) request.continue();
      else request.respond({ status: 200, contentType: 'application/json', body: JSON.stringify(body) });
    };
    await this.page.setRequestInterception(true);
    this.page.on('request', hear);
    return async () => {
      this.page.off('request', hear);
      await this.page.setRequestInterception(false);
    };
  }

  /** Drops a file onto the page, as from the desktop. */
  drop(name, content) {
    return this.page.evaluate((file, text) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([text], file));
      document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
    }, name, content);
  }

  text(selector) {
    return this.page.$eval(selector, (element) => element.innerText);
  }

  count(selector) {
    return this.page.$$eval(selector, (elements) => elements.length);
  }

  /** Checks the page in light and dark, wide and narrow: no violation of the checker, nothing outside of the screen; takes a picture of each. */
  async look(name) {
    mkdirSync(screens, { recursive: true });
    for (const scheme of ['light', 'dark']) {
      for (const [size, viewport] of [['wide', WIDE], ['phone', PHONE]]) {
        await this.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
        await this.page.setViewport(viewport);
        await new Promise((done) => setTimeout(done, 200));
        const { violations } = await this.page.evaluate(`${axe}; axe.run()`);
        const found = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(' ')).join(', ')}`);
        assert.deepEqual(found, [], `${name}, ${scheme}, ${size}`);
        const [needs, has] = await this.page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
        assert.ok(needs <= has, `${name}, ${scheme}, ${size}: ${needs} of ${has} pixels wide`);
        await this.page.screenshot({ path: join(screens, `${name}-${scheme}-${size}.png`) });
      }
    }
    await this.page.setViewport(WIDE);
    await this.page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: 'light' }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
    await this.checkPolicy();
  }

  async checkPolicy() {
    assert.deepEqual([...this.wrongs, ...(await this.page.evaluate(() => window.violations))], []);
  }

  close() {
    return this.browser.close();
  }
}

/** Tries until `holds` gives something true. */
export async function until(what, holds) {
  for (const end = Date.now() + WAIT_MS; Date.now() < end;) {
    if (await holds().catch(() => false)) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail(`waited in vain until ${what}`);
}

function freePort() {
  return new Promise((done) => {
    const listener = createServer().listen(0, '127.0.0.1', () => {
      const { port } = listener.address();
      listener.close(() => done(port));
    });
  });
}
