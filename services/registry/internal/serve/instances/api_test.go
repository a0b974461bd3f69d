package instances

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

func TestAnInstanceIsConfirmedByABeatOrByTheReportThatDiffered(t *testing.T) {
	at := func(seconds int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: seconds} }
	for name, c := range map[string]struct{ observed, beat, want *timestamppb.Timestamp }{
		"the beat is later":    {at(1), at(2), at(2)},
		"the report is later":  {at(3), at(2), at(3)},
		"nothing was observed": {nil, at(2), at(2)},
		"no beat came yet":     {at(3), nil, nil},
	} {
		if have := confirmedAt(&instancev1.Instance{ObservedAt: c.observed}, c.beat); !proto.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v", name, have, c.want)
		}
	}
}
