// Package rpc serves the methods of the contract's services over HTTP, in the protocols Connect, gRPC and gRPC-Web.
//
// The methods come from the descriptors of the contract. A request is passed on to its service on the bus in the
// encoding in which it came, as the actor who asks, so that checks, rights and refusals are those of the service.
//
//	POST /garrison.registry.v1.RegistryService/ListServers     any method
//	GET  the same, with ?encoding=json&message=…               methods that change nothing
//	POST /registry/garrison.api.v1.AboutService/About          methods of every service, below its name
package rpc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
	"github.com/garrison-fleet/garrison/services/gateway/internal/failure"
)

const (
	// mostBytes bounds a request, which must fit into one message of the bus.
	mostBytes = 1<<20 - 64<<10
	// headerNote says why, as -m of the CLI does; headerDryRun asks only to check, and marks the answer.
	headerNote, headerDryRun = "Garrison-Note", "Garrison-Dry-Run"
)

// Serving is what the handlers of methods share.
type Serving struct {
	Streams func(http.Handler) http.Handler // wraps the handlers of methods that stream
	Ended   func(code string)               // is called when a request of a method ended; ok means that it succeeded
}

// Handle adds a handler for each method of each service.
func Handle(mux *http.ServeMux, s Serving) {
	counted := connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
			r, err := next(ctx, q)
			s.Ended(outcome(err))
			return r, err
		}
	}))
	for _, served := range AllServed() {
		for _, name := range served.Names {
			prefix := "/"
			if len(served.Names) > 1 {
				prefix = "/" + name + "/"
			}
			handle(mux, prefix, name, served.Descriptor, counted)
		}
	}
	handleIntents(mux, counted)
	handleFacts(mux, s.Streams)
}

// outcome returns the code of Connect of an error, or ok.
func outcome(err error) string {
	if err == nil || connect.IsNotModifiedError(err) {
		return "ok"
	}
	return connect.CodeOf(err).String()
}

// Served is a service of the contract, and the names on the bus under which its methods are called; none for the
// gateway's own. With several, a path begins with the name.
type Served struct {
	Descriptor protoreflect.ServiceDescriptor
	Names      []string
}

// AllServed returns the services, in the order of their names.
func AllServed() []Served {
	about := apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService")
	names := slices.Sorted(maps.Keys(client.Services))
	all := []Served{{Descriptor: Service}, {about, names}}
	for _, name := range names {
		all = append(all, Served{client.Services[name], []string{name}})
	}
	return all
}

func handle(mux *http.ServeMux, prefix, service string, s protoreflect.ServiceDescriptor, o connect.HandlerOption) {
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		procedure := Procedure(m)
		h := connect.NewUnaryHandler(procedure, forward(service, m), append(options(m), o)...)
		mux.Handle(prefix+procedure[1:], http.StripPrefix(strings.TrimSuffix(prefix, "/"), h))
	}
}

// Procedure returns the path of a method.
func Procedure(m protoreflect.MethodDescriptor) string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

// Reads reports whether a method changes nothing, so that GET serves it. One that any reader may call, and that stores
// something all the same, is marked as idempotent in the contract.
func Reads(m protoreflect.MethodDescriptor) bool {
	level := m.Options().(*descriptorpb.MethodOptions).GetIdempotencyLevel()
	return bus.AccessOf(m) == "read" && level != descriptorpb.MethodOptions_IDEMPOTENT
}

func options(m protoreflect.MethodDescriptor) []connect.HandlerOption {
	o := append(codecs(), connect.WithSchema(m), connect.WithReadMaxBytes(mostBytes))
	if Reads(m) {
		o = append(o, connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	}
	return o
}

// Headers returns the headers that a method takes beside its message.
func Headers(m protoreflect.MethodDescriptor) []string {
	switch {
	case Reads(m):
		return nil
	case m.Parent() == Service:
		return []string{headerNote, headerKey}
	}
	return []string{headerNote, headerDryRun}
}

type unary = func(context.Context, *connect.Request[passed]) (*connect.Response[passed], error)

// forward passes the requests of a method on to its service.
func forward(service string, m protoreflect.MethodDescriptor) unary {
	return func(ctx context.Context, q *connect.Request[passed]) (*connect.Response[passed], error) {
		ctx, err := said(ctx, q.Header())
		if err != nil {
			return nil, failure.Error(err)
		}
		answer, err := client.Forward(ctx, actor.From(ctx), service, m, q.Msg.Encoded)
		dry := errors.Is(err, bus.ErrDryRun)
		if err != nil && !dry {
			return nil, failure.Error(err)
		}
		r := connect.NewResponse(&passed{bus.Encoded{Data: answer, JSON: q.Msg.JSON}})
		if dry {
			r.Header().Set(headerDryRun, dryRunOf(err))
		}
		if q.HTTPMethod() == http.MethodGet {
			return tagged(q, r)
		}
		return r, nil
	}
}

// dryRunOf returns what a dry run would have done: "changes", or "unchanged" when everything is as requested already.
func dryRunOf(err error) string {
	if errors.Is(err, bus.ErrUnchanged) {
		return "unchanged"
	}
	return "changes"
}

// said returns a context with what the headers of a request say beside its message.
func said(ctx context.Context, h http.Header) (context.Context, error) {
	if why := h.Get(headerNote); why != "" {
		ctx = client.WithNote(ctx, why)
	}
	switch dry := h.Values(headerDryRun); {
	case len(dry) == 1 && dry[0] == "1":
		ctx = client.WithDryRun(ctx)
	case len(dry) > 0: // carrying the request out would be the worst answer to a mistake
		return nil, fault.Refusef(fault.Invalid, code.Invalid, "the header %s must be 1, not %.60q", headerDryRun, dry)
	}
	return ctx, nil
}

// tagged returns an answer with the digest of its content as ETag, or that the caller has it already. A cache must keep
// the answers to two actors apart, and ask each time.
func tagged(q *connect.Request[passed], r *connect.Response[passed]) (*connect.Response[passed], error) {
	sum := sha256.Sum256(r.Msg.Data)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	h := r.Header()
	h.Set("Etag", tag)
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Authorization, Accept-Encoding")
	for have := range strings.SplitSeq(q.Header().Get("If-None-Match"), ",") {
		if strings.TrimPrefix(strings.TrimSpace(have), "W/") == tag {
			return nil, connect.NewNotModifiedError(h)
		}
	}
	return r, nil
}
