# syntax=docker/dockerfile:1
# The server with its CPU runtime and the shipped model. Build: docker build -t dragoman . (x86-64 Linux only, as the pinned
# libraries are).

FROM rust:1.95-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-pip \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build

# ONNX Runtime, pinned and checked by hash. A layer of its own: it changes more seldom than the sources.
COPY scripts/ scripts/
RUN python3 scripts/fetch_runtime.py serving

COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --release --locked --bin dragoman \
    && mkdir -p /opt/dragoman/models \
    && cp target/release/dragoman /opt/dragoman/ \
    && cp .runtime/onnxruntime/libonnxruntime.so /opt/dragoman/ \
    && cp .runtime/onnxruntime/LICENSE /opt/dragoman/onnxruntime-LICENSE \
    && cp .runtime/onnxruntime/ThirdPartyNotices.txt /opt/dragoman/onnxruntime-ThirdPartyNotices.txt \
    && cp LICENSE /opt/dragoman/ \
    && cp -r models/ems-small /opt/dragoman/models/

# Has libstdc++ and libgcc, which is all that the program and ONNX Runtime need.
FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin dragoman \
    && install --directory --owner dragoman --group dragoman /data
COPY --from=build /opt/dragoman/ /opt/dragoman/

# The library and the model are found beside the program.
WORKDIR /opt/dragoman
USER dragoman
ENV DRAGOMAN_LISTEN=0.0.0.0:7700 \
    DRAGOMAN_DATA=/data
EXPOSE 7700
VOLUME /data

# Reads the same DRAGOMAN_… variables and file as the server, so that it asks over TLS when the server speaks it. Flags of
# `docker run … serve --listen …` it does not see: give settings as variables. A server lives while large indexes still
# recover; `health --ready` would wait until every collection answers in full.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/opt/dragoman/dragoman", "health"]

ENTRYPOINT ["/opt/dragoman/dragoman"]
CMD ["serve"]
