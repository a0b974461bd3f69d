// Package record wraps the records that operators keep, whatever their noun, for the requests that carry one.
//
//	q := record.Create(&agentv1.Agent{Name: "beacon"})
//	agent := record.As[*agentv1.Agent](q.Record)
package record

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// NounOf returns the noun of a record: the name of its message in lower case; "" of nil.
func NounOf(body proto.Message) ledger.Noun {
	if body == nil {
		return ""
	}
	return ledger.Noun(strings.ToLower(string(body.ProtoReflect().Descriptor().Name())))
}

// Of wraps a record. It panics when Record has no field for it.
func Of(body proto.Message) *registryv1.Record {
	r := &registryv1.Record{}
	r.ProtoReflect().Set(FieldOf(r, body), protoreflect.ValueOfMessage(body.ProtoReflect()))
	return r
}

// FieldOf returns the field of a message that holds records of the noun of a record, or nil.
func FieldOf(m, body proto.Message) protoreflect.FieldDescriptor {
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); f.Message() != nil && f.Message() == body.ProtoReflect().Descriptor() {
			return f
		}
	}
	return nil
}

// Body unwraps a record; nil without one.
func Body(r *registryv1.Record) proto.Message {
	m := r.ProtoReflect()
	f := m.WhichOneof(m.Descriptor().Oneofs().ByName("body"))
	if f == nil {
		return nil
	}
	return m.Get(f).Message().Interface()
}

// As unwraps a record of a known noun; nil when it is of another one.
func As[T proto.Message](r *registryv1.Record) T {
	body, _ := Body(r).(T)
	return body
}

// Set returns the request that creates a record, or changes it where it exists.
func Set(body proto.Message) *registryv1.PutRecordRequest {
	return &registryv1.PutRecordRequest{Record: Of(body)}
}

// Create returns the request that creates a record.
func Create(body proto.Message) *registryv1.PutRecordRequest {
	return &registryv1.PutRecordRequest{Record: Of(body), Expect: registryv1.Expect_EXPECT_ABSENT}
}

// Change returns the request that changes a record.
func Change(body proto.Message) *registryv1.PutRecordRequest {
	return &registryv1.PutRecordRequest{Record: Of(body), Expect: registryv1.Expect_EXPECT_PRESENT}
}

// List returns the request that lists the records of a noun.
func List(noun ledger.Noun) *registryv1.ListRecordsRequest {
	return &registryv1.ListRecordsRequest{Noun: string(noun)}
}

// Delete returns the request that deletes a record by its key, as of a revision; 0 is any.
func Delete(noun ledger.Noun, key string, revision uint64) *registryv1.DeleteRecordRequest {
	return &registryv1.DeleteRecordRequest{Noun: string(noun), Key: key, IfRevision: revision}
}
