# Blizzard with Python, Java and the jars that Spark needs. From a checkout: make wheel && podman build -t blizzard .
# It needs registries of images, of Debian's and of Python's packages, and a Maven repository, and nothing else.

FROM docker.io/library/python:3.13-slim-bookworm AS build
# Mirrors, if the defaults cannot be reached.
ARG PIP_INDEX_URL=https://pypi.org/simple
ARG BLIZZARD_MAVEN_REPOSITORY=https://repo1.maven.org/maven2
WORKDIR /build
COPY infra/container/requirements.txt ./
RUN python -m venv /opt/blizzard/venv
# Spark's package is built from source by setuptools, which has to be there first.
RUN sed -n '/^setuptools==/,/[^\\]$/p' requirements.txt > setuptools.txt \
    && /opt/blizzard/venv/bin/pip install --no-cache-dir --require-hashes -r setuptools.txt \
    && /opt/blizzard/venv/bin/pip install --no-cache-dir --require-hashes --no-build-isolation -r requirements.txt
COPY dist/blizzard-*-py3-none-any.whl ./
RUN /opt/blizzard/venv/bin/pip install --no-cache-dir --no-index --no-deps blizzard-*.whl \
    && /opt/blizzard/venv/bin/blizzard setup --folder /opt/blizzard/jars

FROM docker.io/library/python:3.13-slim-bookworm
# The user has a name, without which Spark does not start.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home blizzard
COPY --from=build /opt/blizzard /opt/blizzard
ENV PATH=/opt/blizzard/venv/bin:$PATH \
    BLIZZARD_JARS=/opt/blizzard/jars
USER blizzard
WORKDIR /data
# checkov:skip=CKV_DOCKER_2: a run ends by itself or works through a batch; its exit code and its log are what to watch
ENTRYPOINT ["blizzard"]
CMD ["--help"]
