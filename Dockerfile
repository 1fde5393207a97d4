# For CPUs:          docker build -t tfbench .
# For NVIDIA GPUs:   docker build -t tfbench --build-arg "EXTRA=[cuda]" .
FROM python:3.12-slim
ARG EXTRA=""
COPY . /opt/tfbench
RUN pip install --no-cache-dir "/opt/tfbench$EXTRA"
WORKDIR /bench
ENTRYPOINT ["tfbench"]
