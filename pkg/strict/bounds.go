package strict

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The bounds of a message from outside. An element costs memory that a sender need not send: two bytes of an encoding
// can be a message of 200. The contract needs less than a tenth of both.
const (
	MaxDepth     = 64   // messages, lists and maps in each other
	fewElements  = 1024 // elements that a message of any size may have
	bytesForEach = 8    // bytes of an encoding for each further element
	textForEach  = 4    // bytes of JSON for each further value
)

// Unmarshal decodes a message from outside. It is an error when the message is nested deeper than MaxDepth or has more
// elements of lists, entries of maps and messages than its size allows; nothing is decoded then.
func Unmarshal(data []byte, into proto.Message) error {
	c := counter{left: fewElements + len(data)/bytesForEach}
	if err := c.message(data, into.ProtoReflect().Descriptor(), MaxDepth); err != nil {
		return err
	}
	return proto.UnmarshalOptions{RecursionLimit: MaxDepth}.Unmarshal(data, into)
}

// UnmarshalJSON does the same with JSON.
func UnmarshalJSON(data []byte, into proto.Message) error {
	if err := checkJSON(data); err != nil {
		return err
	}
	return protojson.UnmarshalOptions{RecursionLimit: MaxDepth}.Unmarshal(data, into)
}

func tooDeep() error { return fmt.Errorf("it is nested deeper than %d levels", MaxDepth) }

func tooMany(n int) error {
	return fmt.Errorf("it has too many elements for its %d bytes; send less in each request", n)
}

// counter counts the elements of an encoding before it is decoded.
type counter struct{ left int }

// message counts what one message holds. What it cannot read, the decoder will refuse.
func (c *counter) message(data []byte, md protoreflect.MessageDescriptor, depth int) error {
	if depth == 0 {
		return tooDeep()
	}
	size := len(data)
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil
		}
		data = data[n:]
		fd := md.Fields().ByNumber(number)
		if n = protowire.ConsumeFieldValue(number, wire, data); n < 0 {
			return nil
		}
		value := data[:n]
		data = data[n:]
		if fd == nil || wire != protowire.BytesType || !(fd.IsList() || fd.Message() != nil) {
			continue // a single value, packed numbers, or unknown and kept as bytes
		}
		if c.left--; c.left < 0 {
			return tooMany(size)
		}
		if fd.Message() == nil {
			continue
		}
		inner, _ := protowire.ConsumeBytes(value)
		if err := c.message(inner, fd.Message(), depth-1); err != nil {
			return err
		}
	}
	return nil
}

// checkJSON counts the values and the levels of a text, which need not be JSON.
func checkJSON(text []byte) error {
	left, depth, quoted := fewElements+len(text)/textForEach, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
			left--
		case c == '}', c == ']':
			depth--
		case c == ',':
			left--
		}
		if depth > MaxDepth {
			return tooDeep()
		}
		if left < 0 {
			return tooMany(len(text))
		}
	}
	return nil
}
