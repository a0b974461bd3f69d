// Package describe makes an OpenAPI 3.1 document of services in protobuf, as the Connect protocol serves them in JSON.
package describe

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Object is an object in JSON.
type Object = map[string]any

// Service is a service to describe.
type Service struct {
	Descriptor protoreflect.ServiceDescriptor
	Prefix     string                                     // of the paths of its methods
	Names      []string                                   // the values of {service} in the prefix
	Reads      func(protoreflect.MethodDescriptor) bool   // reports whether GET serves a method too
	Procedure  func(protoreflect.MethodDescriptor) string // the path of a method
	// Headers returns the headers of a method; the document knows each by its name.
	Headers func(protoreflect.MethodDescriptor) []string
}

// Document returns the document of services. Extra are further paths.
func Document(title, description string, services []Service, extra Object) Object {
	d := document{paths: Object{}, schemas: Object{}}
	for path, item := range extra {
		d.paths[path] = item
	}
	for _, s := range services {
		for i := range s.Descriptor.Methods().Len() {
			if m := s.Descriptor.Methods().Get(i); !m.IsStreamingServer() {
				d.method(s, m)
			}
		}
	}
	return Object{
		"openapi":  "3.1.0",
		"info":     Object{"title": title, "description": description, "version": "1"},
		"security": []any{Object{"bearer": []any{}}},
		"paths":    d.paths,
		"components": Object{
			"schemas":         d.schemas,
			"securitySchemes": Object{"bearer": Object{"type": "http", "scheme": "bearer"}},
			"responses":       Object{"Error": failure},
			"parameters":      headers,
		},
	}
}

// document is a document that grows.
type document struct{ paths, schemas Object }

// method adds the operations of a method.
func (d document) method(s Service, m protoreflect.MethodDescriptor) {
	path := s.Prefix + s.Procedure(m)
	answers := Object{
		"200": Object{
			"description": "The answer.",
			"content":     Object{"application/json": Object{"schema": d.ref(m.Output())}},
		},
		"default": Object{"$ref": "#/components/responses/Error"},
	}
	operation := func(verb string, more Object, parameters ...any) Object {
		o := Object{
			"operationId": string(s.Descriptor.Name()) + "_" + string(m.Name()) + verb,
			"tags":        []any{string(s.Descriptor.Name())},
			"description": comment(m), "responses": answers, "parameters": append(parameters, d.service(s)...),
		}
		for key, value := range more {
			o[key] = value
		}
		return o
	}
	item := Object{"post": operation("", Object{"requestBody": Object{
		"required": true, "content": Object{"application/json": Object{"schema": d.ref(m.Input())}},
	}}, referred(s.Headers(m)...)...)}
	if s.Reads(m) {
		item["get"] = operation("_get", nil, referred("encoding")[0], Object{
			"name": "message", "in": "query", "required": true,
			"content": Object{"application/json": Object{"schema": d.ref(m.Input())}},
		})
	}
	d.paths[path] = item
}

// service returns the parameter {service} of a service that has one.
func (d document) service(s Service) []any {
	if len(s.Names) == 0 {
		return nil
	}
	return []any{Object{
		"name": "service", "in": "path", "required": true, "schema": Object{"type": "string", "enum": s.Names},
	}}
}

// referred returns references to parameters.
func referred(parameters ...string) (all []any) {
	for _, name := range parameters {
		all = append(all, Object{"$ref": "#/components/parameters/" + name})
	}
	return all
}

// headers are the parameters that several methods have.
var headers = Object{
	"Garrison-Note": Object{
		"name": "Garrison-Note", "in": "header", "schema": Object{"type": "string"},
		"description": "Why: one line, which the ledger keeps with what follows from the request.",
	},
	"Idempotency-Key": Object{
		"name": "Idempotency-Key", "in": "header", "schema": Object{"type": "string", "format": "uuid"},
		"description": "The id of the intent, when the request has none. The request may be repeated with it.",
	},
	"Garrison-Dry-Run": Object{
		"name": "Garrison-Dry-Run", "in": "header", "schema": Object{"type": "string", "enum": []any{"1"}},
		"description": "1: check the request and store nothing. The answer has the header Garrison-Dry-Run, " +
			"with changes or unchanged, when the request would have been accepted.",
	},
	"encoding": Object{
		"name": "encoding", "in": "query", "required": true, "schema": Object{"type": "string", "enum": []any{"json"}},
	},
}

// failure is the answer to a request that is refused.
var failure = Object{
	"description": "The request was refused or failed.",
	"content": Object{"application/json": Object{"schema": Object{
		"type": "object",
		"properties": Object{
			"code":    Object{"type": "string", "description": "The code of Connect, such as not_found."},
			"message": Object{"type": "string", "description": "The refusal in one line, with its own code."},
			"details": Object{"type": "array", "items": Object{
				"type": "object", "description": "The refusal (garrison.api.v1.Refusal); debug is its form in JSON.",
				"properties": Object{
					"type": Object{"type": "string"}, "value": Object{"type": "string"},
					"debug": Object{"type": "object"},
				},
			}},
		},
	}}},
}

// comment returns the comment above a declaration, as one paragraph.
func comment(d protoreflect.Descriptor) string {
	text := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	return strings.Join(strings.Fields(text), " ")
}
