package lint

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"testing"
)

// The calculator says what the engine takes, and the benchmark does what the engine
// does; neither may import it, or its constants are nobody else's business. So they have
// some of them once more, and a plan is wrong without a sound where one moves alone.

// twin is a constant that a package has of another one.
type twin struct{ pkg, name, of, original string }

var twins = []twin{
	{"sizing", "cycleRecords", "pipeline", "maxRecords"},
	{"sizing", "cycleBytes", "pipeline", "maxMemory"},
	{"sizing", "aheadBytes", "pipeline", "aheadMemory"},
	{"sizing", "minJournal", "pipeline", "minJournal"},
	{"sizing", "sampledOf", "pipeline", "sampleOneOf"},
	{"sizing", "recordOverhead", "internal/kafkaio", "recordMemory"},
	{"bench", "minJournal", "pipeline", "minJournal"},
	{"bench", "journalShare", "sizing", "journalShare"},
	{"bench", "copyStep", "pipeline", "copyStep"},
	{"bench", "copySteps", "pipeline", "copyBuffers"},
	{"bench", "copyFor", "pipeline", "maxCopyTime"},
}

func TestTwinsAreEqual(t *testing.T) {
	files := map[string][]*goFile{}
	for _, pkg := range packages(t) {
		files[pkg.path] = pkg.files
	}
	scopes := map[string]*types.Scope{}
	scope := func(pkg string) *types.Scope {
		if scopes[pkg] == nil {
			scopes[pkg] = constantsOf(pkg, files[pkg])
		}
		return scopes[pkg]
	}
	for _, w := range twins {
		report(t, checkTwin(w, scope(w.pkg), scope(w.of)))
	}
}

func checkTwin(w twin, in, of *types.Scope) []string {
	copied, original := valueOf(in, w.name), valueOf(of, w.original)
	switch {
	case copied == nil:
		return []string{fmt.Sprintf("%s has no constant %s", w.pkg, w.name)}
	case original == nil:
		return []string{fmt.Sprintf("%s has no constant %s", w.of, w.original)}
	case !constant.Compare(copied, token.EQL, original):
		return []string{fmt.Sprintf("%s.%s is %s, and %s.%s, which it repeats, is %s", w.pkg, w.name, copied, w.of, w.original, original)}
	}
	return nil
}

// constantsOf is the scope of a package, as far as it can be known without what it
// imports but for the units of time: enough for numbers.
func constantsOf(name string, files []*goFile) *types.Scope {
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, f := range files {
		if f.test || f.tool {
			continue
		}
		// Anew: a package's files have their positions in one set, the tree's in one each.
		if file, err := parser.ParseFile(fset, f.name, f.text, parser.SkipObjectResolution); err == nil {
			parsed = append(parsed, file)
		}
	}
	config := types.Config{IgnoreFuncBodies: true, Importer: onlyTime{}, Error: func(error) {}}
	pkg, _ := config.Check(name, fset, parsed, nil) // what it cannot know it leaves out
	return pkg.Scope()
}

// onlyTime is an importer of package time, of which it knows the units.
type onlyTime struct{}

func (onlyTime) Import(name string) (*types.Package, error) {
	if name != "time" {
		return nil, errors.New("not needed")
	}
	pkg := types.NewPackage("time", "time")
	duration := types.NewTypeName(token.NoPos, pkg, "Duration", nil)
	types.NewNamed(duration, types.Typ[types.Int64], nil)
	pkg.Scope().Insert(duration)
	for unit, length := range map[string]int64{"Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9} {
		pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, unit, duration.Type(), constant.MakeInt64(length)))
	}
	pkg.MarkComplete()
	return pkg, nil
}

// valueOf is a constant's, nil where there is none.
func valueOf(scope *types.Scope, name string) constant.Value {
	c, is := scope.Lookup(name).(*types.Const)
	if !is || c.Val().Kind() == constant.Unknown {
		return nil
	}
	return c.Val()
}

func TestTwinsAreEqualBites(t *testing.T) {
	scope := func(text string) *types.Scope {
		return constantsOf("a", []*goFile{mustParse(t, "a/a.go", "package a\nimport (\"time\"; \"example.org/b\")\n"+text+"\nvar _ = b.C\n")})
	}
	of := scope("const most = 1 << 20\nconst part = most / 4\nconst long = 3 * time.Millisecond")
	f := func(text, original string, want ...string) {
		t.Helper()
		bites(t, checkTwin(twin{"x", "mine", "y", original}, scope(text), of), want...)
	}
	f("const mine = 256 << 10", "part")
	f("const mine = 3000 * 1000", "long")
	f("const mine = 256 << 11", "part", "x.mine is 524288, and y.part, which it repeats, is 262144")
	f("var mine = 1", "part", "x has no constant mine")
	f("const mine = 1", "gone", "y has no constant gone")
}
