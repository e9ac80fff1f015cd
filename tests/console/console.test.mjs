// The console as people use it, page by page, in a browser, against a real server. Each test goes on from what those before it made.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { Server, Stage, until } from './stage.mjs';

const TEXTS = readFileSync(new URL('texts.ndjson', import.meta.url), 'utf8');
const server = new Server();
let stage;
let admin;

before(async () => {
  await server.start();
  stage = await Stage.open(server.base);
});

after(async () => {
  await stage?.close();
  await server.remove();
});

test('a new server shows the way to a first collection', async () => {
  await stage.visit('');
  await stage.sees('There is no collection yet.');
  await stage.look('first');
  await stage.press('Make a collection', 'link');
  await stage.sees('No collections yet');
  await stage.press('New collection');
  await stage.write('Name', 'island');
  await stage.write('Description', 'Six sentences in five languages');
  await stage.press('Make it');
  await stage.sees('Drop a file of texts here');
});

test('a name that cannot be is refused in the form, with the reason', async () => {
  await stage.visit('#/collections');
  await stage.press('New collection');
  await stage.write('Name', 'not a name');
  await stage.press('Make it');
  await stage.page.waitForSelector('dialog [role=alert]:not([hidden])');
  assert.match(await stage.text('dialog [role=alert]'), /name/);
  await stage.page.keyboard.press('Escape');
  await until('the dialog is closed', async () => (await stage.count('dialog')) === 0);
});

test('a file that is dropped becomes searchable, and what is wrong in it is named', async () => {
  await stage.visit('#/collections/island');
  await stage.sees('Drop a file of texts here');
  await stage.page.evaluate((content) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([content], 'island.ndjson'));
    document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
  }, `${TEXTS}{"id": "empty", "text": " "}\n`);
  await stage.sees('island.ndjson is searchable, except 1 line that failed.');
  await stage.press('What failed');
  await stage.sees('must hold something besides white space');
  await stage.page.keyboard.press('Escape');
  await stage.look('import');
});

test('a question in a sixth language finds documents in all five', async () => {
  await stage.visit('#/search/island');
  await stage.sees('30 documents in 5 languages');
  await stage.look('search-before');
  await stage.write('Question', 'El barco sale del puerto por la mañana', 'searchbox');
  await stage.page.waitForSelector('.hit');
  await stage.sees('asked in Spanish');
  const first = () => stage.page.$$eval('.hit', (hits) => hits.slice(0, 5).map((hit) => hit.dataset.id.split('-')[0]));
  await until('the ferry is found in most languages', async () => (await first()).filter((id) => id === 'ferry').length >= 4);
  const arabic = await stage.page.$eval('.hit .passage[lang=ar]', (passage) => getComputedStyle(passage).direction);
  assert.equal(arabic, 'rtl');
  await stage.look('search');
});

test('a hit says why it was found', async () => {
  await stage.page.click('.hit .tools button');
  const why = await stage.text('.why');
  for (const part of ['Found by', 'Meaning', 'Words across languages', 'The same words', 'Together that makes a relevance of']) assert.ok(why.includes(part), why);
  assert.match(why, /You asked in Spanish; this document is in/);
  await stage.look('why');
});

test('the marks stand on whole characters', async () => {
  await server.call('POST', '/v1/collections/island/documents', { documents: [{ id: 'emoji', text: '🎉👩‍👩‍👧 The ferry party was great.', language: 'en', metadata: { topic: 'sea' } }] });
  await stage.visit('#/search/island?q=ferry%20party');
  await stage.page.waitForSelector('.hit[data-id=emoji] mark');
  const marks = await stage.page.$$eval('.hit[data-id=emoji] mark', (found) => found.map((mark) => mark.textContent));
  assert.deepEqual(marks, ['ferry', 'party']);
  await server.call('DELETE', '/v1/collections/island/documents/emoji');
});

test('what documents say is text, never markup', async () => {
  const text = '<img src=x onerror="window.broken = true"><script>window.broken = true</script> The lighthouse is white.';
  await server.call('POST', '/v1/collections/island/documents', { documents: [{ id: 'markup', text, language: 'en', metadata: { '<b>': '<i>' } }] });
  await stage.visit('#/search/island?q=white%20lighthouse');
  await stage.page.waitForSelector('.hit[data-id=markup]');
  assert.equal(await stage.page.$eval('.hit[data-id=markup] .passage', (passage) => passage.textContent), text);
  assert.equal(await stage.page.evaluate(() => window.broken), undefined);
  await server.call('DELETE', '/v1/collections/island/documents/markup');
});

test('two settings stand side by side, and say what differs', async () => {
  await stage.visit('#/search/island?q=Wann%20beginnt%20die%20Pr%C3%BCfung%3F');
  await stage.page.waitForSelector('.hit');
  await stage.press('Compare two settings');
  await stage.page.waitForFunction(() => document.querySelectorAll('.results > section').length === 2 && document.querySelectorAll('.results > section:last-child .hit').length > 0);
  assert.ok(await stage.count('.move') > 0);
  await stage.look('compare');
  await stage.press('One setting');
});

test('a language in the tally narrows the search to it, and back', async () => {
  await stage.visit('#/search/island?q=tomatoes');
  await stage.page.waitForSelector('.hit');
  const all = await stage.count('.hit');
  await stage.page.click('.tally button[title="Only Japanese"]');
  await stage.page.waitForSelector('.tally button[title="All languages again"]');
  assert.deepEqual(await stage.page.$$eval('.hit .passage', (hits) => [...new Set(hits.map((one) => one.lang))]), ['ja']);
  await stage.page.click('.tally button[title="All languages again"]');
  await stage.page.waitForFunction((count) => document.querySelectorAll('.hit').length === count, {}, all);
});

test('the request can be copied in three languages', async () => {
  await stage.press('Copy the request');
  for (const [name, part] of [['curl', '/v1/collections/island/search'], ['Python', 'urllib.request'], ['TypeScript', 'await fetch(']]) {
    await stage.press(name, 'tab');
    assert.ok((await stage.text('pre.code')).includes(part), name);
  }
  await stage.press('Copy');
  await stage.sees('Copied');
  assert.ok((await stage.page.evaluate(() => navigator.clipboard.readText())).includes('tomatoes'));
  await stage.look('request');
  await stage.page.keyboard.press('Escape');
});

test('a search needs no mouse', async () => {
  await stage.visit('#/collections');
  await stage.sees('island');
  await stage.page.keyboard.press('Tab');
  assert.equal(await stage.page.evaluate(() => document.activeElement.textContent), 'Skip to content');
  await stage.visit('#/search/island');
  await stage.page.waitForSelector('input[type=search]');
  await stage.page.evaluate(() => document.activeElement.blur());
  await stage.page.keyboard.press('/');
  await stage.page.keyboard.type('Äpfel im Garten');
  await stage.page.waitForSelector('.hit');
  await stage.page.keyboard.press('ArrowDown');
  const id = await stage.page.evaluate(() => document.activeElement.dataset.id);
  await stage.page.keyboard.press('Enter');
  await stage.page.waitForSelector('dialog .passage');
  assert.equal(await stage.text('dialog h2'), id);
  await stage.page.keyboard.press('Escape');
  assert.equal(await stage.page.evaluate(() => document.activeElement.closest('.hit').dataset.id), id);
});

test('documents are browsed by filter, written, changed and deleted', async () => {
  await stage.visit('#/collections/island/documents');
  await until('documents are listed', async () => (await stage.count('.documents > li')) === 30);
  await stage.look('documents');
  await stage.page.select('select[aria-label=Language]', 'ar');
  await until('only Arabic ones are left', async () => (await stage.count('.documents > li')) === 6);
  await stage.page.select('select[aria-label=Language]', '');
  await stage.press('New document');
  await stage.write('Id', 'lamp');
  await stage.write('Text', 'The lamp on the pier is broken.');
  await stage.look('write');
  await stage.press('Save');
  await stage.press('Edit lamp');
  await stage.write('Metadata', '{"topic": "sea", "fixed": true}');
  await stage.press('Save');
  await stage.sees('fixed true');
  await stage.press('Delete lamp');
  await stage.press('Delete it');
  await until('it is gone', async () => (await fetch(`${server.base}/v1/collections/island/documents/lamp`)).status === 404);
});

test('a collection shows its languages, and its settings can be changed', async () => {
  await stage.visit('#/collections/island/about');
  await stage.sees('Documents by language');
  await stage.look('about');
  await stage.write('Description', 'An island in five languages');
  await stage.press('Save');
  await stage.sees('Saved.');
  assert.equal((await server.call('GET', '/v1/collections/island')).description, 'An island in five languages');
});

test('a classifier learns from a field, is tried, and shows its errors', async () => {
  await stage.visit('#/classifiers');
  await stage.press('New classifier');
  await stage.write('Name', 'topics');
  await stage.write('Field with the label', 'topic', 'combobox');
  await stage.press('Train it');
  await stage.sees('Learned from 30 examples');
  await stage.write('A text in any language', 'O navio chega ao porto ao meio-dia.');
  await stage.press('What is it?');
  await stage.sees('Because of');
  await stage.press('Judge it');
  await stage.page.waitForSelector('.matrix button');
  await stage.look('classifier');
  await stage.page.click('.matrix button');
  await stage.sees(' documents');
  await stage.page.waitForSelector('dialog .passage');
  await stage.page.keyboard.press('Escape');
  await stage.visit('#/classifiers');
  await stage.sees('topic in island');
  await stage.look('classifiers');
});

test('mined pairs are accepted and rejected by key', async () => {
  await stage.visit('#/mining');
  await stage.sees('Find pairs');
  await stage.look('mining');
  await stage.press('Find pairs');
  await stage.page.waitForSelector('.review .passage');
  const total = await stage.count('.queue > li');
  assert.ok(total >= 3, `${total} pairs`);
  for (const key of ['a', 'r', 'ArrowRight']) await stage.page.keyboard.press(key);
  await stage.sees('2 accepted, 1 rejected');
  await stage.page.keyboard.press('u');
  await stage.sees('accepted');
  await stage.look('review');
  await stage.page.reload({ waitUntil: 'networkidle2' });
  await stage.sees('2 accepted, 1 rejected');
});

test('a job that failed says why', async () => {
  await server.call('POST', '/v1/collections', { name: 'gone' });
  const lines = Array.from({ length: 20_000 }, (_, at) => JSON.stringify({ text: `Line ${at} of a file whose collection goes away.` }));
  await server.call('POST', '/v1/collections/gone/import', `${lines.join('\n')}\n`);
  await server.call('DELETE', '/v1/collections/gone');
  await stage.visit('#/jobs');
  await stage.sees('collection_not_found');
  await stage.look('jobs');
});

test('snapshots are made, and a collection comes back under another name', async () => {
  await stage.visit('#/snapshots');
  await stage.sees('No snapshots');
  await stage.press('Snapshot of everything');
  await stage.press('Restore');
  await stage.page.select('dialog select', 'island');
  await stage.write('Under another name', 'island-copy');
  await stage.look('restore');
  await stage.page.click('dialog button[type=submit]');
  await stage.sees('Restored.');
  assert.equal((await server.call('GET', '/v1/collections/island-copy')).documents, 30);
  await stage.look('snapshots');
});

test('a collection is deleted only when its name is typed', async () => {
  await stage.visit('#/collections/island-copy/about');
  await stage.press('Delete this collection');
  assert.equal(await stage.page.$eval('dialog button[type=submit]', (one) => one.disabled), true);
  await stage.write('Type island-copy to confirm', 'island-copy');
  await stage.press('Delete it');
  await stage.sees('island-copy is deleted.');
  await stage.look('collections');
});

test('the model shows what was measured, and compares two sentences', async () => {
  await stage.visit('#/models');
  await stage.press('Compare');
  await stage.sees('cosine');
  await stage.look('models');
});

test('more collections than fit a list are found by name', async () => {
  for (let at = 0; at < 205; at += 1) await server.call('POST', '/v1/collections', { name: `a-${String(at).padStart(3, '0')}` });
  await stage.visit('#/collections');
  await stage.press('More collections');
  await until('a second page is there', async () => (await stage.count('.tile')) === 120);
  await stage.write('Name of a collection', 'island', 'searchbox');
  await stage.page.keyboard.press('Enter');
  await stage.sees('An island in five languages');
  await stage.visit('#/search/island?q=ferry');
  await stage.page.waitForSelector('.hit');
  assert.equal(await stage.page.$eval('#collection', (one) => one.tagName), 'INPUT');
  await stage.look('many');
});

test('a server that goes away is said, and the console goes on when it is back', async () => {
  await stage.visit('#/search/island?q=exam');
  await stage.page.waitForSelector('.hit');
  await server.stop();
  await stage.write('Question', 'nets', 'searchbox');
  await stage.sees('The server does not answer.');
  await stage.look('away');
  await server.start();
  await until('the line is gone', () => stage.page.$eval('#gone', (line) => line.hidden));
  await stage.page.waitForSelector('.hit');
});

test('the first key closes the server, and the page goes on with it', async () => {
  await stage.visit('#/keys');
  await stage.sees('No keys');
  await stage.press('New key');
  await stage.write('Name', 'the operator');
  await stage.press('Make it');
  await stage.page.waitForSelector('.secret code');
  admin = await stage.text('.secret code');
  await stage.press('I have it');
  await stage.sees('This key may do everything');
  assert.equal((await fetch(`${server.base}/v1/collections`)).status, 401);
  await stage.press('New key');
  await stage.write('Name', 'a reader');
  await stage.press('Make it');
  await stage.page.waitForSelector('.secret code');
  stage.reader = await stage.text('.secret code');
  await stage.press('I have it');
  await stage.sees('a reader');
  await stage.look('keys');
});

test('a page that is loaded anew asks for a key, and refuses a wrong one', async () => {
  await stage.visit('#/collections/island/documents');
  await stage.sees('This server asks for a key');
  await stage.look('key');
  await stage.page.type('input[type=password]', 'not a key of this server');
  await stage.page.keyboard.press('Enter');
  await stage.sees('The server does not know this key.');
  await stage.page.type('input[type=password]', admin);
  await stage.page.keyboard.press('Enter');
  await until('documents are listed', async () => (await stage.count('.documents > li')) === 30);
  assert.ok(await stage.count('button[aria-label^="Delete "]') > 0);
  const kept = await stage.page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, document.cookie, document.documentElement.outerHTML]));
  assert.ok(!kept.includes(admin), 'the key is kept somewhere');
});

test('a key that only reads is shown nothing that it may not do', async () => {
  await stage.visit('#/collections/island/documents');
  await stage.sees('This server asks for a key');
  await stage.page.type('input[type=password]', stage.reader);
  await stage.page.keyboard.press('Enter');
  await stage.sees('This key may read');
  await until('documents are listed', async () => (await stage.count('.documents > li')) === 30);
  assert.equal(await stage.count('button[aria-label^="Delete "], button[aria-label="New document"]'), 0);
  assert.equal(await stage.count('.bar nav a:not([hidden])'), 6);
  await stage.look('reader');
});

test('the first paint waits for no answer of the API', async () => {
  const { page } = stage;
  const held = [];
  await page.goto('about:blank');
  await page.setRequestInterception(true);
  page.on('request', (request) => (request.url().includes('/v1/') ? held.push(request) : request.continue()));
  await page.goto(`${server.base}/`, { waitUntil: 'load' });
  const painted = () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime;
  await page.waitForFunction(painted, { timeout: 30_000 });
  await until('the page asks the API', async () => held.length > 0);
  console.log(`first contentful paint after ${(await page.evaluate(painted)).toFixed(0)} ms`);
  assert.ok((await stage.text('.bar')).includes('Dragoman'));
  await stage.checkPolicy();
  for (const request of held) await request.abort();
});
