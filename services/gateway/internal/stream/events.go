package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"

	gatewayv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/gateway/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
	"github.com/garrison-fleet/garrison/services/gateway/internal/failure"
)

// Events serves GET /events: the facts of the ledger as server-sent events, with the place behind each as its id. The
// event is named fact, beat (a sign of life), reset or error; the last two end the stream. The header Last-Event-ID, or
// the parameter after, is where the stream begins; the parameters noun, key and new are as in FollowFacts.
func Events(w http.ResponseWriter, r *http.Request) {
	c := actor.From(r.Context())
	ask, err := read(r)
	var query client.Query
	if err == nil {
		query, err = queryOf(r.Context(), c, ask)
	}
	if err != nil {
		failure.Write(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	out := events{w, http.NewResponseController(w)}
	if out.write(": garrison\n\n") == nil {
		out.follow(r.Context(), c, query)
	}
}

// read returns what a request asks for.
func read(r *http.Request) (*gatewayv1.FollowFactsRequest, error) {
	q := r.URL.Query()
	for name := range q {
		if !slices.Contains([]string{"after", "new", "noun", "key"}, name) {
			return nil, fault.Refusef(fault.Invalid, code.Invalid, "/events has no parameter %.60q", name).
				Try("/events?noun=NOUN&key=KEY&after=PLACE&new=1")
		}
	}
	return &gatewayv1.FollowFactsRequest{
		After: cmp.Or(r.Header.Get("Last-Event-ID"), q.Get("after")), NewOnly: q.Get("new") != "",
		Noun: q.Get("noun"), Key: q.Get("key"),
	}, nil
}

// events writes server-sent events.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

// follow writes facts until the stream ends, and why when its reader can know and does not.
func (e events) follow(ctx context.Context, c *client.Client, query client.Query) {
	err := follow(ctx, c, query, e.send)
	if _, reset := errors.AsType[*client.ResetError](err); reset || err == nil {
		return
	}
	said := err.Error()
	if refusal := fault.RefusalOf(err); refusal != nil {
		said = fault.Line(refusal)
	}
	text, _ := json.Marshal(map[string]string{"message": said})
	_ = e.write("event: error\ndata: %s\n\n", text) // fails when the reader is gone
}

func (e events) send(r *gatewayv1.FollowFactsResponse) error {
	name, data, err := "beat", []byte("{}"), error(nil)
	switch {
	case r.GetResetTo() != nil:
		name = "reset"
		data, err = protojson.Marshal(r.GetResetTo())
	case r.GetFact() != nil:
		name = "fact"
		data, err = protojson.Marshal(r.GetFact())
	}
	if err != nil {
		return err
	}
	return e.write("id: %s\nevent: %s\ndata: %s\n\n", r.GetPlace(), name, data)
}

func (e events) write(format string, args ...any) error {
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	return e.control.Flush()
}
