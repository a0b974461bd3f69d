package cli

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/record"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Put creates or changes a record, and returns it as recorded, with the instances that it would configure otherwise.
func Put[T proto.Message](
	ctx context.Context, env *Env, q *registryv1.PutRecordRequest,
) (T, []*registryv1.Outdated, error) {
	r, err := Call[*registryv1.PutRecordResponse](ctx, env, q)
	return record.As[T](r.GetRecord()), r.GetOutdated(), err
}

// Delete deletes records, and returns them as they were.
func Delete[T proto.Message](ctx context.Context, env *Env, q *registryv1.DeleteRecordRequest) ([]T, error) {
	r, err := Call[*registryv1.DeleteRecordResponse](ctx, env, q)
	var out []T
	for _, was := range r.GetRecords() {
		out = append(out, record.As[T](was))
	}
	return out, err
}

// Records returns all records that a request lists.
func Records[T proto.Message](ctx context.Context, env *Env, q *registryv1.ListRecordsRequest) ([]T, error) {
	r, err := All[*registryv1.ListRecordsResponse](ctx, env, q)
	if err != nil {
		return nil, err
	}
	return output.RowsOf[T](r), nil
}
