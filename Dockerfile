# Archiver in a container: `docker build -t archiver .`, then
#   docker run --rm -v archiver:/home/archiver/state archiver archiver run dr550 --quick
# It runs whatever it is told to, so that Dask can start its workers in it, too (docs/scale-out.md).
# The wheel is built where there is a C compiler; what is kept of that is the wheel alone.
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY setup.cfg setup.py pyproject.toml MANIFEST.in README.md LICENSE requirements-dev.lock ./
COPY archiver archiver
COPY backends backends
COPY scenarios scenarios
COPY results results
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN useradd --create-home --uid 1000 archiver
COPY --from=build /wheels /wheels
COPY --from=build /source/requirements-dev.lock /wheels/
RUN python -m pip install --no-cache-dir --constraint /wheels/requirements-dev.lock "$(echo /wheels/*.whl)[dask,traces]" \
    && rm -rf /wheels
USER archiver
RUN mkdir /home/archiver/state
ENV ARCHIVER_HOME=/home/archiver/state
VOLUME /home/archiver/state
WORKDIR /home/archiver
CMD ["archiver", "--help"]
