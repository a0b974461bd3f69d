package bus

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestEachWayNotToBeLetInHasItsName(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		err  error
		want Login
	}{
		"the client's denial":        {nats.ErrAuthorization, LoginDenied},
		"the first connect's denial": {errors.New("nats: 'Authorization Violation'"), LoginDenied},
		"a user's time":              {nats.ErrAuthExpired, LoginExpired},
		"an account's time":          {nats.ErrAccountAuthExpired, LoginExpired},
		"a first connect too late":   {errors.New("nats: User Authentication Expired"), LoginExpired},
		"a revoked user":             {nats.ErrAuthRevoked, LoginRevoked},
		"a full bus":                 {nats.ErrMaxConnectionsExceeded, LoginStarting},
		"a bus that holds off": {errors.New("nats: Connection throttling is active. Please try again " +
			"later."), LoginStarting},
		"a text of a newer bus":    {errors.New("nats: 'Tenant Suspended'"), LoginOther},
		"the client's own text":    {nats.ErrTimeout, LoginAway},
		"no server there":          {nats.ErrNoServers, LoginAway},
		"a closed port":            {fmt.Errorf("dial: %w", syscall.ECONNREFUSED), LoginAway},
		"a bus that went away":     {nats.ErrDisconnected, LoginAway},
		"a file that is not there": {fmt.Errorf("%w: no such file", errUnreadable), LoginUnreadable},
		"a seed that is bad": {
			fmt.Errorf("error signing nonce: %w", fmt.Errorf("%w: bad", errUnreadable)), LoginUnreadable,
		},
	} {
		t.Run(text, func(t *testing.T) {
			if got := LoginOf(c.err); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestWhatTheBusSaidOfItsOwnAccordIsNotForgotten(t *testing.T) {
	t.Parallel()
	c := &session{nc: &nats.Conn{}}
	for _, step := range []struct {
		err  error
		want Login
	}{
		{nats.ErrAuthorization, LoginDenied}, {nats.ErrNoServers, LoginAway}, {nats.ErrAuthRevoked, LoginRevoked},
		{nats.ErrAuthorization, LoginRevoked}, // its answer to all that follows
		{nats.ErrNoServers, LoginAway}, {nats.ErrAuthorization, LoginDenied},
	} {
		before := c.access
		c.refused(step.err)
		if c.access.Login != step.want || c.access.Since.Equal(before.Since) != (before.Login == step.want) {
			t.Errorf("after %v it is %v since %v; it was %v since %v", step.err, c.access.Login, c.access.Since,
				before.Login, before.Since)
		}
	}
	c.letIn()
	if a := c.access; a.Login != LoginIn || a.Reason != "" || !a.NextTry.IsZero() {
		t.Errorf("let in it is %+v", a)
	}
}

// A new nats-server may say something new. This reads its source: each text that it may
// send to a client is in the table, or this fails.
func TestEveryTextOfTheServerIsClassified(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(
		t.Context(),
		"go",
		"list",
		"-m",
		"-f",
		"{{.Dir}}",
		"github.com/nats-io/nats-server/v2",
	).
		Output()
	if err != nil {
		t.Fatalf("where is nats-server's source: %v", err)
	}
	s := source{t: t, set: token.NewFileSet(), texts: map[string]bool{}, vars: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "server", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source: %v", err)
	}
	for _, path := range files {
		if base := filepath.Base(path); base == "errors.go" {
			s.readVars(path)
		}
	}
	for _, path := range files {
		switch base := filepath.Base(path); {
		case strings.HasSuffix(base, "_test.go"):
		// said to servers, and to readers of a stream
		case base == "gateway.go", base == "leafnode.go", base == "route.go", base == "consumer.go":
		default:
			s.readTexts(path)
		}
	}
	if len(s.texts) < 12 || !s.texts["authorization violation"] {
		t.Fatalf("the source was not understood: %v", s.texts)
	}
	for text := range s.texts {
		if !classified(text) {
			t.Errorf("nats-server may say %q, and nothing in said begins so", text)
		}
	}
}

func classified(text string) bool {
	for prefix := range said {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// source gathers what a server says to its clients.
type source struct {
	t     *testing.T
	set   *token.FileSet
	vars  map[string]string // the texts of its errors, by name
	texts map[string]bool
}

func (s *source) parse(path string) *ast.File {
	f, err := parser.ParseFile(s.set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

func (s *source) readVars(path string) {
	ast.Inspect(s.parse(path), func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if call, ok := v.Values[0].(*ast.CallExpr); ok && len(call.Args) == 1 {
				s.vars[v.Names[0].Name] = literal(call.Args[0])
			}
		}
		return true
	})
}

// readTexts gathers the arguments of the calls by which errors are sent. Where one is a
// variable, it is whatever texts and errors the function names.
func (s *source) readTexts(path string) {
	for _, d := range s.parse(path).Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || strings.HasPrefix(fn.Name.Name, "sendErr") {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !strings.HasPrefix(sel.Sel.Name, "sendErr") {
				return true
			}
			found := s.gather(call.Args[0])
			if !found {
				found = s.gather(assignments(fn, call.Args[0]))
			}
			if !found {
				s.t.Errorf("%s: what is sent here?", s.set.Position(call.Pos()))
			}
			return true
		})
	}
}

// gather adds the texts under a node, and reports whether there was one.
func (s *source) gather(under ast.Node) (found bool) {
	ast.Inspect(under, func(n ast.Node) bool {
		text := ""
		switch x := n.(type) {
		case *ast.CallExpr:
			if id, ok := x.Fun.(*ast.Ident); ok && id.Name == "NewErrorCtx" { // its text is the first argument's
				found = s.gather(x.Args[0]) || found
				return false
			}
		case *ast.BasicLit:
			text = literal(x)
		case *ast.Ident:
			text = s.vars[x.Name]
		}
		if text != "" {
			s.texts[strings.ToLower(text)], found = true, true
			return false
		}
		return true
	})
	return found
}

// assignments returns what a function assigns to the variable that an expression is about.
func assignments(fn *ast.FuncDecl, of ast.Expr) ast.Node {
	name := ""
	ast.Inspect(of, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	block := &ast.BlockStmt{}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok {
			if id, ok := a.Lhs[0].(*ast.Ident); ok && id.Name == name {
				block.List = append(block.List, &ast.ExprStmt{X: a.Rhs[0]})
			}
		}
		return true
	})
	return block
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}
