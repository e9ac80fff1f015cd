// Documents of a collection: browsing with a filter, and writing, changing and deleting them.

import { call, get, path, post } from './api.js';
import { ask, button, busy, confirmed, empty, field, fill, h, may, passage, select, tongue } from './dom.js';
import { also, filterEditor, inWords } from './filter.js';
import { chips, openDocument } from './hits.js';
import { ago, languageName, number, plural, short, spoken } from './text.js';

const PAGE = 30;

/** Lists documents in `body`, by filter and order. */
export async function browse({ signal }, collection, body, refresh) {
  const chosen = { filter: undefined, order: 'id', descending: false };
  const list = h('ul.documents');
  const foot = h('div.foot');
  const count = h('p.hint', { role: 'status' });
  const filters = h('div');
  const fields = [...collection.metadata_indexes];
  const documents = path('collections', collection.name, 'documents');
  let cursor;

  const read = async (again) => {
    if (again) cursor = undefined;
    const answer = await post(`${documents}/scroll`, { limit: PAGE, order: chosen.order, descending: chosen.descending, ...(chosen.filter && { filter: chosen.filter }), ...(cursor && { cursor }) }, signal);
    if (again) fill(list);
    cursor = answer.next_cursor;
    for (const one of answer.documents) for (const name of Object.keys(one.metadata)) if (!fields.includes(name)) fields.push(name);
    list.append(...answer.documents.map(item));
    fill(foot, cursor && button('More documents', () => read()));
    if (list.childElementCount === 0) fill(foot, empty('No document', chosen.filter ? 'None fits the filter.' : 'The collection is empty.'));
    if (again) {
      const total = chosen.filter ? (await post(`${documents}/count`, { filter: chosen.filter }, signal)).documents : collection.documents;
      count.textContent = chosen.filter ? `${plural(total, 'document')}: ${inWords(chosen.filter)}` : '';
    }
  };
  const filterBy = (filter) => {
    chosen.filter = filter;
    fill(filters, editor());
    return read(true);
  };
  const editor = () => filterEditor(chosen.filter, (filter) => busy(list, () => {
    chosen.filter = filter;
    return read(true);
  }), fields);
  const item = (one) => {
    const element = h('li', { 'data-id': one.id }, h('div', one.title && h('h3', { dir: 'auto', lang: one.language ?? 'und' }, one.title), one.text ? passage(short(one.text, 400), [], one.language) : h('p.passage.none', 'An embedding without a text.')),
      h('span.actions', button('Open', () => openDocument(collection.name, one.id), 'small', { label: `Open ${one.id}` }),
        may('write') && button('Edit', async () => {
          if (await writeDocument(collection.name, await get(`${documents}/${encodeURIComponent(one.id)}`))) {
            element.replaceWith(item(await get(`${documents}/${encodeURIComponent(one.id)}`)));
            await refresh();
          }
        }, 'small', { label: `Edit ${one.id}` }),
        may('write') && button('Delete', async () => {
          if (!await confirmed('Delete this document?', short(one.title ?? one.text ?? one.id, 200), 'Delete it')) return;
          await call('DELETE', `${documents}/${encodeURIComponent(one.id)}`);
          element.remove();
          await refresh();
        }, 'small', { label: `Delete ${one.id}` })),
      h('footer', tongue(one.language, { own: false }), h('span.mono.hint', { dir: 'auto' }, short(one.id, 40)), h('span.hint', ago(one.updated_at)), !one.indexed && h('span.state.busy', 'waits for its embedding'), chips(one.metadata, (condition) => busy(list, () => filterBy(also(chosen.filter, condition))))));
    return element;
  };
  const languages = [['', 'All languages'], ...spoken(collection.languages).map((one) => [one.language, `${languageName(one.language)} (${number(one.documents)})`])];
  fill(filters, editor());
  fill(body, h('div.toolbar',
    select(languages, '', (code) => busy(list, () => filterBy(code ? { field: 'language', eq: code } : undefined)), { 'aria-label': 'Language' }),
    select([['id', 'By id'], ['-updated_at', 'Changed last first'], ['-created_at', 'Newest first']], 'id', (value) => busy(list, () => {
      chosen.order = value.replace('-', '');
      chosen.descending = value.startsWith('-');
      return read(true);
    }), { 'aria-label': 'Order' }),
    may('write') && button('Document', async () => {
      if (!await writeDocument(collection.name)) return;
      await Promise.all([read(true), refresh()]);
    }, '', { sign: 'add', label: 'New document' })),
  h('details', h('summary', 'Filter'), filters), count, h('h2.sr', 'Documents'), list, foot);
  await read(true);
}

/** Asks for a document, a new one or another version of `known`, and stores it. */
export function writeDocument(collection, known) {
  const id = h('input');
  const title = h('input', { value: known?.title ?? '' });
  const text = h('textarea', { rows: 8, value: known?.text ?? '', autofocus: true, required: !known });
  const language = h('input', { value: known && known.language_confidence === undefined ? known.language ?? '' : '', placeholder: 'detected' });
  const metadata = h('textarea.mono', { rows: 4, spellcheck: 'false', value: JSON.stringify(known?.metadata ?? {}, null, 2) });
  const save = async () => {
    const values = JSON.parse(metadata.value.trim() || '{}');
    const given = { ...(title.value.trim() && { title: title.value.trim() }), ...(language.value.trim() && { language: language.value.trim() }) };
    const target = path('collections', collection, 'documents');
    if (!known) {
      const { results: [result] } = await post(target, { documents: [{ ...given, metadata: values, text: text.value, ...(id.value.trim() && { id: id.value.trim() }) }] });
      if (result.status === 'failed') throw new Error(`${result.error.pointer}: ${result.error.detail}`);
      return result;
    }
    const one = `${target}/${encodeURIComponent(known.id)}`;
    // What stays the same keeps its embedding.
    if (text.value === known.text) return call('PATCH', one, { body: { title: null, ...given, metadata: merged(known.metadata, values) } });
    return call('PUT', one, { body: { ...given, metadata: values, text: text.value } });
  };
  return ask(known ? `Edit ${known.id}` : 'New document', [!known && field('Id', id, 'Left empty, the server gives one.'), field('Title', title), known?.text !== '' && field('Text', text), field('Language', language), field('Metadata', metadata)], 'Save', save, 'wide');
}

/** A patch that makes `before` be `after`: fields that went are null. */
function merged(before, after) {
  const gone = Object.keys(before).filter((name) => !(name in after)).map((name) => [name, null]);
  return { ...Object.fromEntries(gone), ...after };
}
