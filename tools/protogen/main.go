// Command protogen generates Go code from .proto files without protoc: it
// compiles them with a compiler written in Go and hands the result to a
// protoc plug-in (protoc-gen-go unless told otherwise) on its standard input,
// as protoc would.
//
//	protogen -root .. workpull/internal/wire/wire.proto
//
// Files are named relative to the root, which is also the only import path
// besides the well-known google/protobuf/*.proto. Generated files are written
// beside their source.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("protogen", flag.ContinueOnError)
	root := flags.String("root", ".", "folder that the file names are relative to")
	command := flags.String("plugin", "go tool protoc-gen-go", "command line of the protoc plug-in")
	parameter := flags.String("opt", "paths=source_relative", "parameter handed to the plug-in")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files := flags.Args()
	if len(files) == 0 {
		return errors.New("no .proto file named")
	}
	for i, file := range files {
		files[i] = filepath.ToSlash(filepath.Clean(file))
	}

	request, err := compile(ctx, *root, files)
	if err != nil {
		return fmt.Errorf("compile %s: %w", strings.Join(files, ", "), err)
	}
	request.Parameter = parameter
	generated, err := generate(ctx, strings.Fields(*command), request)
	if err != nil {
		return fmt.Errorf("run plug-in %q: %w", *command, err)
	}
	for name, content := range generated {
		path := filepath.Join(*root, filepath.FromSlash(name))
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("write generated file: %w", err)
		}
	}
	return nil
}
