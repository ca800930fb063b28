# The server, albert_tf.serve; docs/serving.md shows how to build and run it.
FROM python:3.11-slim

WORKDIR /build
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY albert_tf albert_tf
COPY data_prep data_prep
COPY configs configs
# As `make setup` does: the pinned pip, then the pinned packages.
RUN pip install --no-cache-dir pip==26.3 \
    && pip install --no-cache-dir -c constraints.txt \
        --build-constraint constraints.txt ".[serve]" \
    && rm -rf /build/*

RUN useradd --create-home server
USER server
WORKDIR /models
EXPOSE 8501
HEALTHCHECK --start-period=60s CMD ["python", "-c", \
    "import urllib.request as u; u.urlopen('http://127.0.0.1:8501/healthz')"]
ENTRYPOINT ["albert-serve", "--host=0.0.0.0"]
