// Classifiers: training one from a field of metadata, trying it, and its errors by language.

import { call, fieldsOf, get, path, post } from './api.js';
import { ask, button, busy, confirmed, dialog, empty, field, fill, h, head, may, meter, passage, select, table, tell, tongue, hint } from './dom.js';
import { showJob } from './jobs.js';
import { ago, languageName, link, number, percent, plural, score } from './text.js';

const KINDS = [['knn', 'knn: the nearest labeled passages vote'], ['mlp', 'mlp: a small network, fastest answers']];
const TONES = { ready: 'good', training: 'busy', failed: 'bad', outdated: 'warn' };
const ERRORS_LOOKED_AT = 500;

export async function show(page) {
  if (page.args[0]) return showOne(page, page.args[0]);
  const { classifiers } = await get('/v1/classifiers', { limit: 200 }, page.signal);
  const make = may('write') && button('New classifier', create, 'primary', { sign: 'add' });
  return fill(page.main, head('Classifiers', 'They learn labels in one language, and tell them in all others.', make), classifiers.length === 0 && empty('No classifiers yet', 'Take a collection whose documents have a label in their metadata, such as a topic.'),
    h('div.grid', classifiers.map((one) => h('a.card.tile', { href: link('classifiers', one.name) }, h('h2', one.name),
      h('p.facts', h(`span.state.${TONES[one.state]}`, one.state), h('span', one.kind), one.source && h('span', `${one.source.field} in ${one.source.collection}`))))));
}

async function create() {
  const { collections } = await get('/v1/collections', { limit: 200 });
  if (collections.length === 0) return tell('Make a collection first.', 'note');
  const name = h('input', { required: true, autofocus: true });
  const label = h('input', { required: true, list: 'label-fields' });
  const known = h('datalist', { id: 'label-fields' });
  const offer = async (value) => fill(known, (await fieldsOf(value)).map((each) => h('option', { value: each })));
  const source = select(collections.map((one) => [one.name, one.name]), collections[0].name, offer);
  await offer(collections[0].name);
  const kind = select(KINDS, 'knn');
  const made = await ask('New classifier', [field('Name', name), field('Learns from', source), field('Field with the label', label), known, field('Kind', kind)], 'Train it',
    () => post('/v1/classifiers', { name: name.value.trim(), kind: kind.value, source: { collection: source.value, field: label.value.trim() } }));
  if (made) location.hash = link('classifiers', made.name);
  return made;
}

async function showOne({ main, signal }, name) {
  const target = path('classifiers', name);
  let one = await get(target, {}, signal);
  const work = h('div');
  const again = async (job) => {
    await showJob(work, job, signal);
    dispatchEvent(new Event('hashchange'));
  };
  fill(main, head(name, [one.kind, one.source && `learns ${one.source.field} from ${one.source.collection}`, one.trained_at && `trained ${ago(one.trained_at)}`].filter(Boolean).join(' · '),
    may('write') && button('Train again', async () => again(await post(`${target}/train`)), {}), may('write') && button('Delete', async () => {
      if (!await confirmed(`Delete ${name}?`, 'What it has labeled stays.', 'Delete it')) return;
      await call('DELETE', target);
      location.hash = '#/classifiers';
    }, {})), work);
  if (one.state === 'training') {
    await showJob(work, await get(path('jobs', one.job), {}, signal), signal);
    one = await get(target, {}, signal);
  }
  if (one.error) main.append(h('p.notice.bad', one.error.detail));
  if (one.state === 'ready') main.append(learned(one.training), attempt(target), one.source ? quality(target, one.source) : '');
}

function learned(training) {
  if (!training) return '';
  const most = Math.max(...training.labels.map((each) => each.examples), 1);
  return h('section.card', h('h2', `Learned from ${plural(training.examples, 'example')}`),
    training.validation_quality !== undefined && h('p', `Right on ${percent(training.validation_quality)} of ${plural(training.validation_examples, 'example')} set apart.`),
    table('Examples by label', ['Label', '#Examples', 'Share'], training.labels.map((each) => [each.label, number(each.examples), meter(each.examples / most)])));
}

function attempt(target) {
  const text = h('textarea', { rows: 2, 'aria-label': 'A text in any language', placeholder: 'A text in any language' });
  const answer = h('div.stack', { role: 'status' });
  return h('section.card', h('h2', 'Try it'), text, h('div', button('What is it?', async () => {
    const { predictions: [one] } = await post(`${target}/predict`, { texts: [text.value], scores: 5, explain: 3 });
    fill(answer, h('p.line', h('b', { dir: 'auto' }, one.abstained ? 'It abstains' : one.labels.join(', ')), one.language && tongue(one.language)),
      table('Probabilities', ['Label', '#Probability', 'Share'], one.scores.map((each) => [each.label, percent(each.probability), meter(each.probability)])),
      one.neighbors?.length > 0 && [h('h3', 'Because of'), one.neighbors.map((each) => h('div', h('p.line', tongue(each.language), h('b', { dir: 'auto' }, each.labels.join(', ')), h('span.hint', `cosine ${score(each.score)}`)), passage(each.text, [], each.language)))]);
  }, 'primary')), answer);
}

/** The confusion matrix on the documents that it learned from, of all languages or of one; a cell shows its documents. */
function quality(target, source) {
  const place = h('div.stack');
  const narrowed = (code) => (code ? { and: [source.filter, { field: 'language', eq: code }].filter(Boolean) } : source.filter);
  const evaluate = async (code, languages) => {
    const filter = narrowed(code);
    const result = await post(`${target}/evaluate`, { documents: { collection: source.collection, field: source.field, ...(filter && { filter }) } });
    const spoken = languages ?? result.languages;
    const choose = select([['', 'All languages'], ...spoken.filter((one) => one.language).map((one) => [one.language, `${languageName(one.language)}: ${percent(one.scores.accuracy)}`])], code, (value) => busy(choose, () => evaluate(value, spoken)), { 'aria-label': 'Language' });
    fill(place, choose, h('p', `Right on ${percent(result.all.accuracy)} of ${plural(result.all.examples, 'document')}, macro-F1 ${percent(result.all.macro_f1)}${result.transfer ? `; the other languages are ${percent(result.transfer.gap)} below ${languageName(result.transfer.from)}` : ''}.`),
      result.confusion && matrix(result, (expected, answered) => errors(target, source, filter, expected, answered)));
  };
  return h('section.card', h('h2', 'How well does it tell them?'), hint('Judged on its own collection, each document without itself if the kind is knn. A click on a number shows the documents.'), place, h('div', button('Judge it', (event) => {
    event.target.closest('button').hidden = true;
    return evaluate('');
  }, 'primary')));
}

function matrix({ confusion, labels }, open) {
  const names = labels.map((one) => one.label);
  const answers = confusion.some((one) => one.answered === undefined) ? [...names, undefined] : names;
  const most = Math.max(...confusion.map((one) => one.count), 1);
  const cell = (expected, answered) => {
    const count = confusion.find((one) => one.expected === expected && one.answered === answered)?.count ?? 0;
    return count === 0 ? h('span.zero', '·') : h(expected === answered ? 'button.right' : 'button.wrong', { vars: { part: (count / most).toFixed(3) }, 'aria-label': `${expected} told as ${answered ?? 'nothing'}: ${count}`, onclick: () => open(expected, answered) }, number(count));
  };
  const rows = names.map((expected) => [h('th', { scope: 'row', dir: 'auto' }, expected), ...answers.map((answered) => cell(expected, answered))]);
  const all = table('Confusion matrix: rows are the labels, columns the answers', ['is ↓ told as →', ...answers.map((one) => one ?? 'abstained')], rows);
  all.classList.add('matrix');
  return all;
}

/** The documents of a cell: those with the label, asked about anew. */
function errors(target, source, filter, expected, answered) {
  return dialog(`${expected} told as ${answered ?? 'nothing'}`, () => {
    const place = h('div', hint('Asking…'));
    const value = { true: true, false: false }[expected] ?? expected;
    const values = [...new Set([value, ...(expected.trim() !== '' && Number.isFinite(Number(expected)) ? [Number(expected)] : [])])];
    busy(place, async () => {
      const { documents } = await post(path('collections', source.collection, 'documents', 'scroll'), { limit: ERRORS_LOOKED_AT, filter: { and: [{ field: source.field, in: values }, filter].filter(Boolean) } });
      const found = [];
      for (let at = 0; at < documents.length; at += 100) {
        const part = documents.slice(at, at + 100);
        const { predictions } = await post(`${target}/predict`, { documents: { collection: source.collection, ids: part.map((one) => one.id) } });
        predictions.forEach((one, place) => (one.labels[0] === answered || (one.abstained && answered === undefined)) && found.push(part[place]));
      }
      fill(place, hint(plural(found.length, 'document')), found.slice(0, 100).map((one) => h('div', tongue(one.language), passage(one.text, [], one.language), h('span.mono.hint', { dir: 'auto' }, one.id))));
    });
    return place;
  }, 'wide');
}
