// Command generate reads the contract as buf builds it, because generated Go code lacks the comments, and writes the
// OpenAPI document of the HTTP API.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/garrison-fleet/garrison/services/gateway/internal/openapi/describe"
	"github.com/garrison-fleet/garrison/services/gateway/internal/rpc"
)

const about = "Everything that the CLI garrison can do. Each request acts as the user whose credentials are its " +
	"bearer token; garrison context token prints it. Requests are checked strictly: an unknown field is refused. " +
	"Methods that change nothing can be called by GET too, and their answers have an ETag. gRPC, gRPC-Web and the " +
	"Connect protocol in protobuf are served on the same paths."

func main() {
	if err := generate(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(in io.Reader, out io.Writer) error {
	files, err := read(in)
	if err != nil {
		return err
	}
	var services []describe.Service
	for _, s := range rpc.AllServed() {
		d, err := files.FindDescriptorByName(s.Descriptor.FullName())
		if err != nil {
			return err
		}
		one := describe.Service{
			Descriptor: d.(protoreflect.ServiceDescriptor), Reads: rpc.Reads, Procedure: rpc.Procedure,
			Headers: rpc.Headers,
		}
		if len(s.Names) > 1 {
			one.Prefix, one.Names = "/{service}", s.Names
		}
		services = append(services, one)
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(describe.Document("Garrison", about, services, paths))
}

// read returns the descriptors of the contract, with their comments.
func read(contract io.Reader) (*protoregistry.Files, error) {
	data, err := io.ReadAll(contract)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("read the contract: %w", err)
	}
	return protodesc.NewFiles(&set)
}
