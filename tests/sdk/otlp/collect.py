"""Sends traces and metrics to a server of gRPC's own library, and to one of Python's over HTTP, both with OpenTelemetry's own messages.

    .cache/sdk-otlp/bin/python tests/sdk/otlp/collect.py
"""

import http.server
import sys
import threading
from concurrent import futures
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from harness import PATIENT, Gateway, Upstream, request

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


class Received:
    """What came, decoded."""

    def __init__(self):
        self.spans, self.metrics = [], set()

    def traces(self, message):
        for resource in message.resource_spans:
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def numbers(self, message):
        for resource in message.resource_metrics:
            self.metrics |= {metric.name for scope in resource.scope_metrics for metric in scope.metrics}

    def span(self, name):
        found = [span for span in self.spans if span.name == name]
        assert len(found) == 1, f"{name} in {[span.name for span in self.spans]}"
        return found[0]


class OverGrpc:
    """A collector by gRPC's own library."""

    def __init__(self):
        self.got = got = Received()

        class Traces(trace_service_pb2_grpc.TraceServiceServicer):
            def Export(self, message, context):
                assert dict(context.invocation_metadata())["x-collector-key"] == "k"
                got.traces(message)
                return trace_service_pb2.ExportTraceServiceResponse()

        class Numbers(metrics_service_pb2_grpc.MetricsServiceServicer):
            def Export(self, message, context):
                got.numbers(message)
                return metrics_service_pb2.ExportMetricsServiceResponse()

        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), self.server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Numbers(), self.server)
        self.url = f"http://127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def stop(self):
        self.server.stop(None)


class OverHttp:
    """A collector by Python's own server."""

    def __init__(self):
        self.got = got = Received()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.headers["content-type"] == "application/x-protobuf"
                if self.path == "/v1/traces":
                    got.traces(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
                elif self.path == "/v1/metrics":
                    got.numbers(metrics_service_pb2.ExportMetricsServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()


def exported(collector, protocol):
    upstream = Upstream()
    try:
        telemetry = (
            f'[telemetry]\notlp_endpoint = "{collector.url}"\notlp_protocol = "{protocol}"\n'
            'otlp_headers = { x-collector-key = "k" }\n'
        )
        provider = f'[[providers]]\nname = "upstream"\nbase_url = "{upstream.url}/v1"\napi_key = "client"\n'
        gateway = Gateway(config=PATIENT + provider + telemetry)
        body = {"model": "plain", "messages": [{"role": "user", "content": "I live in Oslo"}]}
        headers = {"authorization": "Bearer sk-otlp", "x-backstory-user": "ann", "traceparent": PARENT}
        status, _ = request(f"{gateway.url}/v1/chat/completions", "POST", body, headers)
        assert status == 200, status
        assert gateway.stop() == 0
    finally:
        upstream.kill()
        collector.stop()
    got = collector.got
    call, attempt = got.span("POST /v1/chat/completions"), got.span("chat plain")
    assert call.trace_id.hex() == attempt.trace_id.hex() == TRACE
    assert attempt.parent_span_id == call.span_id and call.kind == Span.SPAN_KIND_SERVER
    assert [link.span_id for link in got.span("commit").links] == [call.span_id]
    assert {"backstory_requests", "gen_ai.client.operation.duration"} <= got.metrics, sorted(got.metrics)
    print(f"{protocol}: {len(got.spans)} spans, {len(got.metrics)} metrics")


if __name__ == "__main__":
    exported(OverGrpc(), "grpc")
    exported(OverHttp(), "http")
