package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

// generate runs the plug-in and returns the files it made, by name relative to
// the root.
func generate(ctx context.Context, command []string, request *pluginpb.CodeGeneratorRequest) (map[string][]byte, error) {
	if len(command) == 0 {
		return nil, errors.New("empty command line")
	}
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	var output bytes.Buffer
	plugin := exec.CommandContext(ctx, command[0], command[1:]...)
	plugin.Stdin = bytes.NewReader(input)
	plugin.Stdout = &output
	plugin.Stderr = os.Stderr
	if err := plugin.Run(); err != nil {
		return nil, err
	}

	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output.Bytes(), &response); err != nil {
		return nil, fmt.Errorf("decode response: %w", err)
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	files := make(map[string][]byte, len(response.GetFile()))
	for _, file := range response.GetFile() {
		if file.GetInsertionPoint() != "" {
			return nil, fmt.Errorf("%s: insertion points are not supported", file.GetName())
		}
		files[file.GetName()] = []byte(file.GetContent())
	}
	return files, nil
}
