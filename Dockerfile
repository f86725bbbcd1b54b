# syntax=docker/dockerfile:1

FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
# The toolchain is the image's own: `rust-toolchain.toml` would fetch components that a build does not need.
COPY Cargo.toml Cargo.lock ./
COPY config config
COPY migrations migrations
COPY src src
# Cargo wants every target of the manifest to be there.
COPY benches benches
COPY tests tests
COPY scripts/build-optimized scripts/environment scripts/
# `--build-arg OPTIMIZED=yes`: laid out by what it does under load, in two to three times the time.
ARG OPTIMIZED=no
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    if [ "$OPTIMIZED" = yes ]; then \
        scripts/build-optimized && install -D target/optimized/backstory /out/backstory; \
    else \
        cargo build --release --locked --bin backstory && install -D target/release/backstory /out/backstory; \
    fi && \
    install -d -o 10001 -g 10001 -m 0700 /out/data

FROM debian:bookworm-slim
RUN apt-get update && \
    apt-get install -y --no-install-recommends ca-certificates tzdata && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /out/backstory /usr/local/bin/backstory
COPY --from=build --chown=10001:10001 /out/data /var/lib/backstory
USER 10001:10001
VOLUME ["/var/lib/backstory"]
EXPOSE 8080
# Mount the config at /etc/backstory/backstory.toml. Without any `[[keys]]` in it the gateway refuses to listen on an
# address that others can reach, and says so.
ENV BACKSTORY_CONFIG=/etc/backstory/backstory.toml
# Where the embedded store is, unless `[store]` says something else.
ENV XDG_DATA_HOME=/var/lib
ENTRYPOINT ["backstory"]
CMD ["serve", "--listen", "0.0.0.0:8080"]
