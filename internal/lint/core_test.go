package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// The core decides verdicts. It has one owner and depends on its arguments
// only, so that the same input gives the same verdicts wherever it runs: no
// lock, no goroutine, no clock, no randomness, no input or output.

// inCore reports whether a shipped file belongs to the core.
func inCore(file *goFile) bool {
	dir, name := path.Split(file.name)
	switch dir {
	case "filter/", "window/":
		return true
	case "pipeline/":
		return strings.HasPrefix(name, "shard")
	}
	return false
}

var (
	coreForbidsImports = map[string]string{
		"sync":         "one owner needs no lock",
		"math/rand":    "verdicts are not random",
		"math/rand/v2": "verdicts are not random",
		"crypto/rand":  "verdicts are not random",
		"os":           "the core has no I/O",
		"net":          "the core has no I/O",
		"syscall":      "golang.org/x/sys is for the filter's memory",
		"log":          "the core does not log",
		"log/slog":     "the core does not log",
		"hash/maphash": "its seed differs from process to process",
	}
	coreForbidsTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}
)

func TestCoreStaysPure(t *testing.T) {
	for _, pkg := range packages(t) {
		for _, file := range pkg.files {
			if !file.test && !file.tool && inCore(file) {
				report(t, checkPure(file))
			}
		}
	}
}

func checkPure(file *goFile) []string {
	var found []string
	add := func(pos token.Pos, format string, args ...any) {
		found = append(found, file.at(pos)+": "+fmt.Sprintf(format, args...))
	}
	for i, imp := range file.imports() {
		top, _, _ := strings.Cut(imp, "/")
		if reason, bad := coreForbidsImports[imp]; bad {
			add(file.ast.Imports[i].Pos(), "imports %s: %s", imp, reason)
		} else if top == "os" || top == "net" {
			add(file.ast.Imports[i].Pos(), "imports %s: the core has no I/O", imp)
		}
	}
	ast.Inspect(file.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ChanType:
			add(n.Pos(), "channel: one owner talks to nobody")
		case *ast.SendStmt:
			add(n.Pos(), "send: one owner talks to nobody")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				add(n.Pos(), "receive: one owner talks to nobody")
			}
		case *ast.SelectStmt:
			add(n.Pos(), "select: one owner waits for nobody")
		case *ast.GoStmt:
			add(n.Pos(), "go statement: the core starts nothing")
		case *ast.SelectorExpr:
			if file.isName(n, "time") && slices.Contains(coreForbidsTime, n.Sel.Name) {
				add(n.Pos(), "time.%s: time comes in with the record", n.Sel.Name)
			}
		}
		return true
	})
	return found
}

func TestCoreStaysPureBites(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		bites(t, checkPure(mustParse(t, "filter/a.go", "package filter\n"+text)), want...)
	}
	f("import \"time\"\nfunc a(d time.Duration) {}")
	f("import \"time\"\nvar now = time.Now()", "filter/a.go:3: time.Now")
	f("import clock \"time\"\nvar now = clock.Since", "time.Since")
	f("import \"sync\"", "no lock")
	f("import \"net/http\"", "no I/O")
	f("import \"os\"", "no I/O")
	f("import \"math/rand/v2\"", "not random")
	f("var c chan int", "channel")
	f("func a() { c <- 1 }", "send")
	f("func a() { <-c }", "receive")
	f("func a() { select {} }", "select")
	f("func a() { go a() }", "go statement")
}

func TestCoreIsWhatTheRuleCovers(t *testing.T) {
	f := func(name string, want bool) {
		t.Helper()
		if got := inCore(&goFile{name: name}); got != want {
			t.Errorf("inCore(%s) = %v, want %v", name, got, want)
		}
	}
	f("filter/memory_linux.go", true)
	f("window/window.go", true)
	f("pipeline/shard.go", true)
	f("pipeline/shard_undo.go", true)
	f("pipeline/engine.go", false)
	f("internal/keys/json.go", false)
}
