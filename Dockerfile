# The images of `make images`, for people with Docker or Podman:
#
#   docker build --target operator -t workpull/operator:dev .
#
# Targets: operator, workpull, example-thumbnailer, example-sink. Each is one
# static binary, /tmp and a user without rights.
ARG GO_VERSION=1.26

FROM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ENV CGO_ENABLED=0
RUN mkdir -p /root-fs/etc /root-fs/tmp /out \
 && chmod 1777 /root-fs/tmp \
 && printf 'root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n' > /root-fs/etc/passwd \
 && printf 'root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n' > /root-fs/etc/group
RUN go build -trimpath -ldflags "-s -w" -o /out/operator ./cmd/operator \
 && go build -trimpath -ldflags "-s -w" -o /out/workpull ./cmd/workpull \
 && go build -trimpath -ldflags "-s -w" -o /out/example-thumbnailer ./examples/thumbnailer \
 && go build -trimpath -ldflags "-s -w" -o /out/example-sink ./examples/thumbnailer/sink

FROM scratch AS base
COPY --from=build /root-fs/ /
USER 65532:65532

FROM base AS operator
COPY --from=build /out/operator /operator
ENTRYPOINT ["/operator"]

FROM base AS workpull
COPY --from=build /out/workpull /workpull
ENTRYPOINT ["/workpull"]

FROM base AS example-thumbnailer
COPY --from=build /out/example-thumbnailer /example-thumbnailer
ENTRYPOINT ["/example-thumbnailer"]

FROM base AS example-sink
COPY --from=build /out/example-sink /example-sink
ENTRYPOINT ["/example-sink"]
