package rpc

import (
	"bytes"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/strict"
)

// passed is a message that the gateway passes on as it came: the service reads it, and refuses what it does not know.
type passed struct{ bus.Encoded }

// codec takes a passed message as it is, and reads others strictly, in place of connect's own codecs.
type codec struct {
	name string // of the content type
	json bool
}

// codecs returns the options for the encodings of requests and answers.
func codecs() []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithCodec(codec{"proto", false}), connect.WithCodec(codec{"json", true}),
		connect.WithCodec(codec{"json; charset=utf-8", true}),
	}
}

// Name implements connect.Codec.
func (c codec) Name() string { return c.name }

// Marshal implements connect.Codec.
func (c codec) Marshal(m any) ([]byte, error) {
	switch m := m.(type) {
	case *passed:
		return m.Data, nil
	case proto.Message:
		if c.json {
			return protojson.Marshal(m)
		}
		return proto.Marshal(m)
	}
	return nil, fmt.Errorf("a %T is not a message", m)
}

// Unmarshal implements connect.Codec. It keeps no part of data.
func (c codec) Unmarshal(data []byte, m any) error {
	switch m := m.(type) {
	case *passed:
		m.Encoded = bus.Encoded{Data: bytes.Clone(data), JSON: c.json}
		return nil
	case proto.Message:
		return c.read(data, m)
	}
	return fmt.Errorf("a %T is not a message", m)
}

func (c codec) read(data []byte, m proto.Message) error {
	switch {
	case !c.json:
		if err := strict.Unmarshal(data, m); err != nil {
			return err
		}
	case len(data) > 0:
		if err := strict.UnmarshalJSON(data, m); err != nil {
			return err
		}
	}
	return strict.Check(m)
}
