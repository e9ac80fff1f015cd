// Starts Swagger UI. The document and the requests are below the path of this page, which a reverse proxy may have extended.
window.onload = () => {
  const base = new URL('..', window.location.href).pathname.replace(/\/$/, '');
  const ServerOfThisPage = () => ({
    statePlugins: {
      spec: {
        wrapActions: {
          updateJsonSpec: (update) => (document) => update({ ...document, servers: document.servers.map((server) => ({ ...server, url: base || '/' })) }),
        },
      },
    },
  });
  window.ui = SwaggerUIBundle({
    dom_id: '#swagger-ui',
    url: '../openapi.json',
    deepLinking: true,
    showExtensions: true,
    validatorUrl: 'none',
    layout: 'StandaloneLayout',
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl, ServerOfThisPage],
  });
};
