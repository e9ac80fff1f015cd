// Starts the console: routing to pages, asking for the key, the notice when the server is unreachable.
// An address is #/page/argument/…?settings; it never contains a key.

import {ended, get, hasKey, pause, probe, server, session, useKey} from './api.js';
import {button, dialog, empty, failed, field, fill, form, h, written} from './dom.js';

const PAGES = ['search', 'collections', 'jobs', 'mining', 'classifiers', 'models', 'keys', 'snapshots'];
const main = document.getElementById('main');
let leaving = new AbortController();

// Shows the page that the address names. Each page is a module with `show(page)`, loaded when needed.
async function route() {
	leaving.abort();
	leaving = new AbortController();
	const {signal} = leaving;
	const [where, query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2);
	const [name, ...args] = where.split('/').map(part => decode(part));
	const known = PAGES.includes(name) ? name : 'search';
	for (const link of document.querySelectorAll('nav a')) {
		link.ariaCurrent = link.hash === `#/${known}` ? 'page' : null;
		// Unlike `scrollIntoView`, this does not move where the Tab key begins.
		if (link.ariaCurrent) link.parentElement.scrollLeft = link.offsetLeft - 100;
	}
	try {
		const module = await import(`./${known}.js`);
		if (signal.aborted) return;
		const content = h(`div.page.${known}`);
		fill(main, content);
		document.title = `${known[0].toUpperCase()}${known.slice(1)} · Dragoman`;
		await module.show({main: content, args, query: new URLSearchParams(query), signal});
	} catch (error) {
		if (signal.aborted || error.name === 'AbortError') return;
		if (error.status === 403 || error.status === 404) {
			fill(main, empty(error.status === 403 ? 'Not allowed' : 'Not found', error.story));
		} else failed(error);
	}
}

function decode(part) {
	try {
		return decodeURIComponent(part);
	} catch {
		return part;
	}
}

// Asks for a key. Requests wait for it meanwhile.
async function askForKey(refused) {
	const secret = h('input', {type: 'password', required: true, autofocus: true});
	const value = await dialog('This server requires a key', close => form(() => {
		close(written(secret));
		secret.value = '';
	}, refused && h('p.notice.bad', 'The server does not know this key. It may have been revoked or have expired.'),
	field('Key', secret, 'It stays in memory until you close or reload this page.'),
	h('footer', h('button.button.primary', {type: 'submit'}, 'Continue'))));
	if (value) return useKey(value);
	fill(main, empty('This server requires a key', 'Enter one to see its data.', button('Enter a key', route, 'primary')));
	throw new DOMException('no key', 'AbortError');
}

function showSession() {
	for (const link of document.querySelectorAll('nav [data-needs]')) link.hidden = !session[link.dataset.needs];
	const who = document.getElementById('who');
	const may = session.everything ? 'may do everything' : session.admin ? 'may manage its collections' : session.write ? 'may read and write' : 'may read';
	fill(who, session.guarded && hasKey() && [h('span', `This key ${may}. `), button('Forget key', async () => {
		await useKey(null);
		route();
	}, 'link')]);
}

// Shows the number of unfinished jobs next to the word "Jobs".
async function countJobs() {
	const count = document.getElementById('jobs-running');
	for (;;) {
		if (!document.hidden && (!session.guarded || hasKey())) {
			// Errors are reported elsewhere.
			const {jobs} = await get('v1/jobs', {limit: 50}).catch(() => ({jobs: []}));
			const open = jobs.filter(job => !ended(job)).length;
			Object.assign(count, {textContent: open, hidden: open === 0, ariaLabel: `${open} under way`});
		}
		await pause(4000);
	}
}

const away = document.getElementById('gone');
Object.assign(server, {
	key: askForKey, session: showSession,
	gone: () => { away.hidden = false; },
	back: () => {
		away.hidden = true;
		route();
	},
});
addEventListener('hashchange', route);
addEventListener('keydown', event => {
	const typing = event.target.closest?.('input, textarea, select, dialog');
	if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
	const box = document.querySelector('input[type=search]');
	if (box) {
		event.preventDefault();
		box.focus();
		box.select();
	}
});
document.querySelector('.skip').addEventListener('click', event => {
	event.preventDefault();
	main.focus();
});
// A file dropped next to its target must not replace the console.
for (const kind of ['dragover', 'drop']) addEventListener(kind, event => event.preventDefault());

const started = route();
probe();
started.finally(countJobs);
