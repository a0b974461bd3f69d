package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
	"github.com/garrison-fleet/garrison/services/gateway/internal/failure"
	"github.com/garrison-fleet/garrison/services/gateway/internal/images"
	"github.com/garrison-fleet/garrison/services/gateway/internal/openapi"
	"github.com/garrison-fleet/garrison/services/gateway/internal/rpc"
	"github.com/garrison-fleet/garrison/services/gateway/internal/stream"
)

// handler routes requests.
func (g *Gateway) handler() http.Handler {
	api := http.NewServeMux()
	rpc.Handle(api, rpc.Serving{Streams: g.untilStop, Ended: g.count})
	api.Handle("GET /events", g.untilStop(http.HandlerFunc(stream.Events)))
	images.Handle(api, g.untilStop)
	api.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		failure.Write(w, r, fault.Refusef(fault.NotFound, code.NotFound, "nothing is served at %.200q", r.URL.Path).
			Try("GET /openapi.json"))
	})
	all := http.NewServeMux()
	all.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	all.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	all.HandleFunc("GET /openapi.json", openapi.Serve)
	all.Handle("/console/", g.console.Handler(g.untilStop))
	all.Handle("GET /{$}", http.RedirectHandler("/console/", http.StatusSeeOther))
	all.Handle("/", g.asActor(api))
	return timed(writeWithin, secured(all))
}

// count counts a request, by the code of Connect with which it ended.
func (g *Gateway) count(code string) { g.cfg.Metrics.Add(metrics.HTTPRequests, 1, code) }

// secured sets the headers that hold for every answer. The console allows its pages what they need.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}

// asActor runs requests with the connection of their bearer token.
func (g *Gateway) asActor(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, done, err := g.actors.Admit(r)
		if err != nil {
			g.count(failure.Code(err))
			failure.Write(w, r, err)
			return
		}
		defer done()
		g.door.known(r.Context())
		next.ServeHTTP(w, r.WithContext(actor.With(r.Context(), c)))
	})
}

// errStopping ends streams.
var errStopping = errors.New("the gateway stops")

// untilStop ends the requests of a handler when the gateway stops.
func (g *Gateway) untilStop(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		go func() {
			select {
			case <-g.stopping:
				cancel(errStopping)
			case <-ctx.Done():
			}
		}()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
