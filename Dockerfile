# Images of the server: `cpu` (the default), kept as small as possible, and `gpu` for NVIDIA GPUs. Needs BuildKit (Docker 20.10 or
# newer).
#
#     docker build --tag dragoman .
#     docker build --tag dragoman:gpu --target gpu .
#
# To package a program that is already built, without a toolchain, use a folder made by `make release` as the context:
#
#     docker build --tag dragoman --build-arg PROGRAM=packaged --file Dockerfile dist/dragoman-0.1.0-x86_64-linux

# Where the program comes from: the stage `build` or `packaged`.
ARG PROGRAM=build
# Base images. Override them to pull from another registry.
ARG RUST=rust:1.95-bookworm
ARG DEBIAN=debian:bookworm-slim
ARG CUDA=nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04

FROM ${RUST} AS tools
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-pip \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY scripts/ scripts/

FROM tools AS cuda-runtime
RUN python3 scripts/fetch_runtime.py serving-cuda

FROM tools AS build
# ONNX Runtime, pinned and checked by hash. In a separate layer, because it changes less often than the sources.
RUN python3 scripts/fetch_runtime.py serving
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --release --locked --bin dragoman \
    && scripts/package.sh target/release/dragoman /opt/dragoman

FROM scratch AS packaged
COPY . /opt/dragoman/

FROM ${PROGRAM} AS program

# What the program needs from a system: its libraries, two user names, /tmp and /data.
FROM ${DEBIAN} AS system
COPY --from=program /opt/dragoman/ /image/opt/dragoman/
WORKDIR /image
RUN mkdir -p etc usr/bin \
    && install --directory --mode 1777 tmp \
    && install --directory --mode 700 /data \
    && printf 'root:x:0:0:root:/:/sbin/nologin\ndragoman:x:10001:10001:dragoman:/:/sbin/nologin\n' >etc/passwd \
    && printf 'root:x:0:\ndragoman:x:10001:\n' >etc/group \
    && printf 'hosts: files dns\n' >etc/nsswitch.conf \
    && ln --symbolic /opt/dragoman/dragoman usr/bin/dragoman \
    && ldd opt/dragoman/dragoman opt/dragoman/libonnxruntime.so >/libraries \
    && ! grep 'not found' /libraries \
    && sed --quiet --regexp-extended 's/^\s*(.* => )?(\/\S+) \(0x.*/\2/p' /libraries | sort --unique \
        | xargs cp --parents --dereference --target-directory . \
    && cp --parents /usr/share/doc/libc6/copyright /usr/share/doc/libgcc-s1/copyright /usr/share/doc/libstdc++6/copyright .

FROM ${CUDA} AS gpu
RUN groupadd --system --gid 10001 dragoman \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin dragoman \
    && install --directory --owner 10001 --group 10001 --mode 700 /data \
    && ln --symbolic /opt/dragoman/dragoman /usr/bin/dragoman
COPY --from=program /opt/dragoman/ /opt/dragoman/
COPY --from=cuda-runtime /build/.runtime/onnxruntime-cuda/*.so /opt/dragoman/
WORKDIR /opt/dragoman
USER 10001:10001
ENV DRAGOMAN_LISTEN=0.0.0.0:7700 \
    DRAGOMAN_DATA=/data \
    DRAGOMAN_DEVICE=cuda
EXPOSE 7700
VOLUME /data
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["dragoman", "health"]
ENTRYPOINT ["/opt/dragoman/dragoman"]
CMD ["serve"]

FROM scratch AS cpu
COPY --from=system /image/ /
# Copied separately, so that the owner is right with every builder.
COPY --from=system --chown=10001:10001 /data/ /data/

# The program finds the library and the model next to itself.
WORKDIR /opt/dragoman
USER 10001:10001
ENV DRAGOMAN_LISTEN=0.0.0.0:7700 \
    DRAGOMAN_DATA=/data
EXPOSE 7700
VOLUME /data

# Reads the same DRAGOMAN_… variables and file as the server, so it uses TLS if the server does. It does not see flags such as in
# `docker run … serve --listen …`: give settings as variables. It reports a server as healthy even while large indexes still
# recover; `health --ready` would wait until every collection returns complete results.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["dragoman", "health"]

ENTRYPOINT ["/opt/dragoman/dragoman"]
CMD ["serve"]
