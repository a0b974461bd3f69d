// Package failure answers HTTP requests with errors: in the form of the caller's protocol, with the code, the nearest
// match and the next step that the CLI prints.
package failure

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// form is what a kind of error is over HTTP.
type form struct {
	code   connect.Code
	status int
}

var forms = map[fault.Kind]form{
	fault.Internal:    {connect.CodeInternal, http.StatusInternalServerError},
	fault.Invalid:     {connect.CodeInvalidArgument, http.StatusBadRequest},
	fault.NotFound:    {connect.CodeNotFound, http.StatusNotFound},
	fault.Conflict:    {connect.CodeAborted, http.StatusConflict},
	fault.Denied:      {connect.CodePermissionDenied, http.StatusForbidden},
	fault.Unavailable: {connect.CodeUnavailable, http.StatusServiceUnavailable},
}

// of returns the form and the refusal of an error.
func of(err error) (form, *apiv1.Refusal) {
	refusal := fault.RefusalOf(err)
	if refusal == nil {
		refusal = &apiv1.Refusal{Code: code.Refused, Message: err.Error()}
	}
	if refusal.GetComponent() == "" {
		refusal = proto.CloneOf(refusal)
		refusal.Component = "gateway"
	}
	switch refusal.GetCode() {
	case code.LoginRefused, code.LoginOver:
		return form{connect.CodeUnauthenticated, http.StatusUnauthorized}, refusal
	}
	return forms[fault.KindOf(err)], refusal
}

// Code returns the code of Connect of an error.
func Code(err error) string {
	form, _ := of(err)
	return form.code.String()
}

// Error returns an error as Connect and gRPC send it: the code of its kind, one line of text, and the refusal as a
// detail.
func Error(err error) *connect.Error {
	form, refusal := of(err)
	out := connect.NewError(form.code, errors.New(fault.Line(refusal)))
	if detail, err := connect.NewErrorDetail(refusal); err == nil {
		out.AddDetail(detail)
	}
	setHeaders(out.Meta(), form, refusal)
	return out
}

func setHeaders(h http.Header, is form, refusal *apiv1.Refusal) {
	if wait := refusal.GetRetryAfterMs(); wait > 0 {
		h.Set("Retry-After", fmt.Sprint((wait+999)/1000))
	}
	if is.status == http.StatusUnauthorized {
		h.Set("Www-Authenticate", `Bearer realm="garrison"`)
	}
}

// problem is an error on a path that is not of Connect, as of RFC 9457, with the parts of a refusal.
type problem struct {
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Code      string `json:"code"`
	Component string `json:"component,omitempty"`
	Nearest   string `json:"nearest,omitempty"`
	Try       string `json:"try,omitempty"`
}

var rpc = connect.NewErrorWriter()

// Write answers a request with an error, before a handler of its path has begun to.
func Write(w http.ResponseWriter, r *http.Request, err error) {
	if strings.Contains(r.URL.Path, "/garrison.") && rpc.IsSupported(r) {
		_ = rpc.Write(w, r, Error(err)) // a client that is gone needs no answer
		return
	}
	form, refusal := of(err)
	setHeaders(w.Header(), form, refusal)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(form.status)
	_ = json.NewEncoder(w).Encode(problem{
		Title: http.StatusText(form.status), Status: form.status, Detail: refusal.GetMessage(),
		Code: refusal.GetCode(), Component: refusal.GetComponent(),
		Nearest: refusal.GetNearest(), Try: refusal.GetTry(),
	})
}

// Status returns the HTTP status of an error.
func Status(err error) int {
	form, _ := of(err)
	return form.status
}
