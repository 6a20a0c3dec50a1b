package lint

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Documents name files and tests between backticks, and link to files. What
// they name exists, so that a reader who follows them arrives.

var (
	fence    = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
	span     = regexp.MustCompile("`([^`\n]+)`")
	link     = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)
	sourceOf = regexp.MustCompile(`^[\w./-]+\.(go|s|sh|ya?ml|json|properties|txtar)$`)
	testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z_]\w*\*?$`)
)

// namesOf is what the tree has to offer to a document.
type namesOf struct {
	files map[string]bool // by path below the root, and by base name
	tests map[string]bool // functions of test files
}

func TestDocsNameWhatExists(t *testing.T) {
	have := namesOf{files: map[string]bool{}, tests: map[string]bool{}}
	var documents []string
	for _, name := range tracked(t) {
		have.files[name] = true
		have.files[path.Base(name)] = true
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			have.files[dir] = true
		}
		if path.Ext(name) == ".md" {
			documents = append(documents, name)
		}
	}
	for _, pkg := range packages(t) {
		for _, file := range pkg.files {
			have.addTests(file)
		}
	}
	for _, name := range documents {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		report(t, checkDoc(have, name, string(text)))
	}
}

func (have namesOf) addTests(file *goFile) {
	if !file.test {
		return
	}
	for _, decl := range file.ast.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
			have.tests[fn.Name.Name] = true
		}
	}
}

// hasTest takes a name, or the start of names followed by a star.
func (have namesOf) hasTest(name string) bool {
	start, pattern := strings.CutSuffix(name, "*")
	if !pattern {
		return have.tests[name]
	}
	for test := range have.tests {
		if strings.HasPrefix(test, start) {
			return true
		}
	}
	return false
}

func checkDoc(have namesOf, name, text string) []string {
	var found []string
	text = fence.ReplaceAllString(text, "")
	for _, match := range span.FindAllStringSubmatch(text, -1) {
		switch code := match[1]; {
		case sourceOf.MatchString(code) && inTree(code):
			if !have.files[strings.TrimPrefix(code, "./")] {
				found = append(found, fmt.Sprintf("%s names the file `%s`, which does not exist", name, code))
			}
		case testName.MatchString(code):
			if !have.hasTest(code) {
				found = append(found, fmt.Sprintf("%s names the test `%s`, which does not exist", name, code))
			}
		}
	}
	for _, match := range link.FindAllStringSubmatch(text, -1) {
		target := match[1]
		if strings.Contains(target, ":") {
			continue // another site
		}
		if !have.files[path.Join(path.Dir(name), target)] {
			found = append(found, fmt.Sprintf("%s links to %s, which does not exist", name, target))
		}
	}
	slices.Sort(found)
	return slices.Compact(found) // a name repeated is one finding
}

// inTree tells a path of the project from a user's own file, as in examples:
// source files are always the project's; others only with a folder before them.
func inTree(file string) bool {
	return path.Ext(file) == ".go" || path.Ext(file) == ".s" || strings.Contains(strings.TrimPrefix(file, "./"), "/") && !path.IsAbs(file)
}

func TestDocsNameWhatExistsBites(t *testing.T) {
	have := namesOf{
		files: map[string]bool{"filter/set.go": true, "set.go": true, "docs/DESIGN.md": true, "docs": true},
		tests: map[string]bool{"TestLaw": true, "TestCase_KEY_04": true},
	}
	f := func(text string, want ...string) {
		t.Helper()
		bites(t, checkDoc(have, "docs/a.md", text), want...)
	}
	f("`filter/set.go` and `set.go` hold `TestLaw`, `TestCase_KEY_*`; run `--config my.yaml`; [design](DESIGN.md#words)")
	f("see `filter/gone.go`", "`filter/gone.go`, which does not exist")
	f("see `TestGone`", "`TestGone`, which does not exist")
	f("see `TestCase_FIL_*`", "does not exist")
	f("see [the design](GONE.md)", "links to GONE.md")
	f("see [elsewhere](https://example.org/x)")
	f("```go\nvar _ = `filter/gone.go`\n```\n")
}
