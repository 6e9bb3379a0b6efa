package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSink(t *testing.T) {
	server := httptest.NewServer(newSink().handler())
	defer server.Close()
	call := func(method, path, body string) (int, string) {
		request, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "image/png")
		request.Header.Set("Worker", "pod-0")
		request.Header.Set("Attempt", "2")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	for _, body := range []string{"first", "hello"} {
		code, _ := call("PUT", "/results/a%2Fb", body)
		require.Equal(t, 204, code)
	}
	code, body := call("GET", "/results/a%2Fb", "")
	require.Equal(t, 200, code)
	require.Equal(t, "hello", body)
	_, body = call("GET", "/results", "")
	require.JSONEq(t, `[{"id":"a/b","bytes":5,"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
		"type":"image/png","count":2,"worker":"pod-0","attempt":"2"}]`, body)
	code, _ = call("PUT", "/results/large", strings.Repeat("x", maxResult+1))
	require.Equal(t, 413, code)
	code, _ = call("GET", "/results/large", "")
	require.Equal(t, 404, code)
	code, _ = call("DELETE", "/results", "")
	require.Equal(t, 204, code)
	_, body = call("GET", "/results", "")
	require.Equal(t, "[]\n", body)
}
