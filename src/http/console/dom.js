// Elements without a framework, and the few parts that all pages share: icons, messages, dialogs, meters, copy buttons.

import { session } from './api.js';
import { endonym, hue, languageName, number, pieces } from './text.js';

const PROPERTIES = new Set(['value', 'checked', 'disabled', 'hidden', 'open', 'selected', 'htmlFor', 'indeterminate']);

/** A text field that browsers neither complete nor correct. */
export const PLAIN = { type: 'text', autocomplete: 'off', spellcheck: 'false' };

/** An element: attributes, `on…` listeners, `vars` for custom properties; children are elements, texts, lists or nothing. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'vars') for (const [key, one] of Object.entries(value)) element.style.setProperty(`--${key}`, one);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name === 'cls' ? 'class' : name, value === true ? '' : value);
  }
  return element;
}

/** Puts `children` in place of what `element` holds. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
}

const ICONS = {
  close: 'M6 6l12 12M18 6L6 18', check: 'M5 12.5l4.5 4.5L19 7.5', copy: 'M9 9h10v11H9zM5 15V4h10', add: 'M12 5v14M5 12h14',
  down: 'M12 4v13M6 12l6 6 6-6', up: 'M12 20V7M6 12l6-6 6 6', open: 'M5 12h14M13 6l6 6-6 6', code: 'M8 7l-5 5 5 5M16 7l5 5-5 5',
  sides: 'M4 5h16v14H4zM12 5v14', search: 'M16 16l4 4M11 17a6 6 0 1 1 0-12 6 6 0 0 1 0 12z', bin: 'M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13',
  why: 'M12 17.5v.1M9 9a3 3 0 1 1 4.5 2.6c-1 .6-1.5 1.2-1.5 2.4', like: 'M4 12h6M14 12h6M10 6l4 12',
};

export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  line.setAttribute('d', ICONS[name]);
  svg.append(line);
  return svg;
}

/** A button; a click that starts work shows it, and what goes wrong is said. */
export function button(label, action, { cls = '', title, sign, disabled, label: spoken } = {}) {
  const one = h('button', { type: 'button', cls: `button ${cls}`, title, disabled, 'aria-label': spoken }, sign && icon(sign), label);
  one.addEventListener('click', (event) => busy(one, () => action(event)));
  return one;
}

/** Runs `work` while `element` cannot be used again; tells errors. */
export async function busy(element, work) {
  if (element.getAttribute('aria-busy') === 'true') return;
  element.setAttribute('aria-busy', 'true');
  try {
    await work();
  } catch (error) {
    failed(error);
  } finally {
    element.removeAttribute('aria-busy');
  }
}

/** Says an error, unless it only says that the page was left. */
export function failed(error) {
  if (error?.name === 'AbortError') return;
  if (!error?.story) console.error(error);
  tell(error?.story ?? 'Something in this page went wrong. Load it again.', 'bad');
}

/** Shows a message for some seconds; an error stays until it is closed. */
export function tell(message, kind = 'good') {
  const close = h('button', { type: 'button', cls: 'plain', 'aria-label': 'Close' }, icon('close'));
  const toast = h('div', { cls: `toast ${kind}` }, h('p', { dir: 'auto' }, message), close);
  close.addEventListener('click', () => toast.remove());
  document.getElementById('toasts').append(toast);
  if (kind !== 'bad') setTimeout(() => toast.remove(), 6000);
  while (toast.parentElement?.childElementCount > 4) toast.parentElement.firstElementChild.remove();
}

/** A label with its control below. */
export function field(label, control, hint) {
  const id = control.id || fresh();
  control.id = id;
  if (hint) control.setAttribute('aria-describedby', `${id}-hint`);
  return h('div', { cls: 'field' }, h('label', { for: id }, label), control, hint && h('p', { cls: 'hint', id: `${id}-hint` }, hint));
}

/** A checkbox with its label beside. */
export function check(label, checked, changed, hint) {
  const box = h('input', { type: 'checkbox', checked, onchange: () => changed(box.checked) });
  return h('label', { cls: 'check' }, box, h('span', null, label, hint && h('small', null, hint)));
}

let last = 0;
export const fresh = () => `e${(last += 1)}`;

/** Choices side by side of which one is taken. */
export function choice(label, options, value, changed) {
  const name = fresh();
  return h('fieldset', { cls: 'choice' }, h('legend', null, label), h('div', null, options.map(([key, text, title]) => {
    const radio = h('input', { type: 'radio', name, value: key, checked: key === value, onchange: () => changed(key) });
    return h('label', { title }, radio, h('span', null, text));
  })));
}

/** A select of [value, text] pairs. */
export function select(options, value, changed, props) {
  const list = options.map(([key, text]) => h('option', { value: key }, text));
  const one = h('select', { ...props, onchange: () => changed?.(one.value) }, list);
  one.value = value ?? options[0]?.[0] ?? '';
  return one;
}

/** A modal dialog; `build(close)` gives its content. Resolves with what `close` is called with. */
export function dialog(title, build, cls = '') {
  return new Promise((resolve) => {
    const id = fresh();
    const before = document.activeElement;
    const box = h('dialog', { cls, 'aria-labelledby': id });
    const close = (value) => {
      box.close();
      box.remove();
      if (before?.isConnected) before.focus();
      resolve(value);
    };
    box.append(
      h('header', null, h('h2', { id }, title),
        h('button', { type: 'button', cls: 'plain', 'aria-label': 'Close', onclick: () => close() }, icon('close'))),
      h('div', { cls: 'body' }, build(close)),
    );
    box.addEventListener('cancel', (event) => {
      event.preventDefault();
      close();
    });
    box.addEventListener('click', (event) => {
      if (event.target === box) close();
    });
    document.body.append(box);
    box.showModal();
    (box.querySelector('[autofocus]') ?? box.querySelector('.body input, .body textarea, .body select, .body button'))?.focus();
  });
}

/** A dialog with a form. `submit` gives what the dialog is closed with; what it throws is shown, and the form stays. */
export function ask(title, fields, action, submit, cls) {
  return dialog(title, (close) => {
    const wrong = h('p', { cls: 'notice bad', hidden: true, role: 'alert' });
    const go = h('button', { type: 'submit', cls: 'button primary' }, action);
    return h('form', { onsubmit: (event) => {
      event.preventDefault();
      busy(go, async () => {
        try {
          close(await submit());
        } catch (error) {
          wrong.hidden = false;
          wrong.textContent = error.story ?? error.message;
        }
      });
    } }, fields, wrong, h('footer', null, go));
  }, cls);
}

/** A remark in small letters. */
export const hint = (...text) => h('p', { cls: 'hint' }, text);

/** What a text field holds, as a list. */
export const listed = (input) => input.value.split(',').map((one) => one.trim()).filter(Boolean);

/** Asks before something is destroyed. With `word`, it has to be typed. */
export function confirmed(title, text, action, word) {
  return dialog(title, (close) => {
    const go = h('button', { cls: 'button danger', type: 'submit', disabled: Boolean(word) }, action);
    const typed = word && h('input', { ...PLAIN, oninput: () => { go.disabled = typed.value !== word; } });
    const submit = (event) => {
      event.preventDefault();
      close(true);
    };
    return h('form', { onsubmit: submit }, h('p', null, text), typed && field(`Type ${word} to confirm`, typed),
      h('footer', null, button('Keep it', () => close(false)), go));
  });
}

/** A passage with its marks, written in the direction of its script. */
export function passage(text, marks, language, cls = 'passage') {
  return h('p', { cls, dir: 'auto', lang: language ?? 'und' }, pieces(text, marks).map((one) => (one.marked ? h('mark', null, one.text) : one.text)));
}

/** A language's dot and names. */
export function tongue(code, { own = true } = {}) {
  const self = own ? endonym(code) : '';
  return h('span', { cls: 'tongue', vars: { hue: hue(code) } }, h('i', null),
    self && self !== languageName(code) && h('b', { lang: code, dir: 'auto' }, self), h('span', null, languageName(code)));
}

/** Parts of a whole by language, as one bar: [{language, documents}]. */
export function languageBar(counts) {
  const total = counts.reduce((sum, one) => sum + one.documents, 0);
  const parts = [...counts].sort((a, b) => b.documents - a.documents);
  const text = parts.slice(0, 12).map((one) => `${languageName(one.language)} ${number(one.documents)}`).join(', ');
  return h('div', { cls: 'spectrum', role: 'img', 'aria-label': `Documents by language: ${text || 'none'}`, title: text },
    parts.map((one) => h('i', { vars: { hue: hue(one.language), part: (one.documents / Math.max(total, 1)).toFixed(4) } })));
}

/** A bar from 0 to 1. */
export function meter(value, cls = '') {
  const part = Math.max(0, Math.min(1, Number.isFinite(value) ? value : 0));
  return h('span', { cls: `meter ${cls}`, 'aria-hidden': 'true' }, h('i', { vars: { part: part.toFixed(4) } }));
}

/** A button that copies what `text()` gives. */
export function copier(text, label = 'Copy') {
  const one = button(label, async () => {
    await navigator.clipboard.writeText(text());
    one.lastChild.textContent = 'Copied';
    setTimeout(() => { one.lastChild.textContent = label; }, 1500);
  }, { sign: 'copy', cls: 'small' });
  return one;
}

/** What a page shows when there is nothing to show. */
export const empty = (title, text, ...more) => h('div', { cls: 'empty' }, h('h2', null, title), text && h('p', null, text), more);

/** Head of a page: its title, a line below, and what can be done. */
export function head(title, text, ...actions) {
  return h('div', { cls: 'head' }, h('div', null, h('h1', { dir: 'auto' }, title), text && h('p', null, text)), h('div', { cls: 'actions' }, actions));
}

/** A table that scrolls by itself on a narrow screen. Rows are lists of cells; columns whose name begins with # hold numbers. */
export function table(label, columns, rows) {
  const number = columns.map((one) => (one.startsWith('#') ? 'num' : null));
  const line = (row) => h('tr', null, row.map((cell, at) => (cell instanceof HTMLTableCellElement ? cell : h('td', { cls: number[at], dir: 'auto' }, cell))));
  return h('div', { cls: 'scroll', tabindex: '0', role: 'region', 'aria-label': label },
    h('table', null, h('thead', null, h('tr', null, columns.map((one, at) => h('th', { scope: 'col', cls: number[at] }, one.replace(/^#/, ''))))), h('tbody', null, rows.map(line))));
}

/** Whether the caller may do what needs `write`, `admin` or `everything`. */
export const may = (what) => session[what];
