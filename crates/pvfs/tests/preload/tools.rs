//! Everyday tools: what they do to files of ours is what they do to any.

use super::{inside, same};
use crate::support::{TestCluster, text};

#[test]
fn coreutils_do_what_they_do_anywhere() {
    let cluster = TestCluster::start(3);
    for line in [
        "echo hello > f; cat f; cat < f; wc -c f; cp f g; cmp f g && echo same; mv g h; ls",
        "mkdir -p a/b/c; touch a/x a/b/y; find . | sort; rm -r a; ls -A; echo done",
        "echo 1 > f; ln f g; ln -s f s; ln -s $PWD/f t; stat -c '%n %h %s %F %a' f g s; stat -c %F t; readlink s; cat s t; rm f; cat g; cat s",
        "touch -d '2001-02-03 04:05:06 UTC' f; stat -c %Y f; touch -r f g; stat -c '%Y %X' g; chmod 751 g; stat -c %a g",
        "head -c 300000 /dev/zero | tr '\\0' x > z; dd if=z of=y bs=7k status=none; cmp y z && stat -c %s y; dd if=z of=y bs=1k count=3 seek=5 conv=notrunc status=none; sum y; truncate -s 1000 y; wc -c < y; tail -c 5 y",
        "printf 'b\\na\\nc\\n' > f; sort f -o f; cat f; sort -r < f | tee g; uniq g; head -1 g; tail -1 g; split -l 1 f p; ls; paste pa?; tac f; od -c f; sha256sum f",
        "mkdir d; cp /etc/passwd d/p; cp -r d e; diff -r d e && echo same; cp -a d f; ls f; du -b d/p | cut -f1 | grep -c .; rm -rf d e f; ls -A | wc -l",
        "umask 027; touch f; mkdir d; stat -c %a f d; umask 0; mkdir e; touch g; stat -c %a e g; install -m 640 g h; stat -c %a h",
        "mkdir d; rmdir d; rmdir d; cat nothing; mkdir nothing/x; touch f; mkdir f; ls f/; cd f; rm d; ln f f; mv nothing x; chmod 1 nothing; echo $?",
        "mkfifo p; stat -c %F p; mktemp -d -p . dXXXXXX | wc -c; mktemp -p . fXXXXXX | wc -c; ls | wc -l; realpath -s f; pwd; cd ..; cd - ; pwd -P",
        "echo data > f; mv f $S/moved; cat $S/moved; mv $S/moved g; cat g; cp g $S/copy; cat $S/copy; rm $S/copy; ls",
        "sync f 2>&1 | wc -l; echo a > f; sync f; sync -f f; test -e f && test -r f && test -s f && test ! -d f && echo yes; test -x f || echo no; [ f -ef ./f ] && echo same",
        "seq 1000 > f; cp --reflink=auto f g; cmp f g && cp --reflink=always f h; echo $?; dd if=/dev/zero of=s bs=1 count=0 seek=1M status=none; echo end >> s; cp --sparse=always s t; cmp s t && stat -c %s t",
        "for i in $(seq 300); do echo $i > file$i; done; ls | wc -l; cat file* | sort -n | md5sum; rm file*; ls -A | wc -l",
    ] {
        same(&cluster, line);
    }
}

#[test]
fn shells_redirect_and_pipe() {
    let cluster = TestCluster::start(3);
    for line in [
        "exec 3> f; echo one >&3; echo two >&3; exec 3>&-; cat f; exec 4< f; read -u 4 a; read -u 4 b; echo $a $b",
        "echo a > f; echo b >> f; { echo c; /bin/echo d; } >> f; cat f; cat f f > g; wc -l < g",
        "(echo sub; cat) < /dev/null > f; cat f; while read line; do echo got $line; done < f",
        "exec 5<> f; echo 12345 >&5; exec 6< f; cat <&6; cat f; ls -l /proc/self/fd/0 > /dev/null; cat <<< here > h; cat h",
        "ls nothing 2> e; wc -l < e; { echo out; echo err >&2; } > o 2>&1; cat o; set -C; echo x > o; echo $?",
        "exec > log; echo to log; ls nothing; date > /dev/null; /bin/echo external; exec 1>&2; cat log",
        "f() { echo in function; }; f > x; cat x; echo $(< x); mapfile -t l < x; echo ${#l[@]}; printf '%s\\n' a b > x; cat x | tac > y; cat y",
        "echo 'echo from script $1' > s.sh; bash s.sh arg; . ./s.sh; sh s.sh; for i in 1 2 3; do echo $i; done > n; paste -sd+ n",
        "cat > f <<< text & wait; cat f; (exec > f; echo exec in subshell); cat f; echo x | tee -a f f2; cat f f2; cat /dev/fd/9 9< f",
        "mkdir d; cd d; (cd ..; pwd); pwd; ls ..; cd ../d/../d; pwd; pushd .. > /dev/null; pwd; popd > /dev/null; pwd; echo *; cd ..; echo */",
    ] {
        same(&cluster, line);
    }
}

#[test]
fn archives_come_out_as_they_went_in() {
    let cluster = TestCluster::start(3);
    same(
        &cluster,
        "mkdir -p t/a; seq 20000 > t/a/numbers; ln -s a t/link; echo x > t/x; touch -d @1000000000 t/x; \
         tar cf t.tar t; mkdir o; tar xf t.tar -C o; diff -r t o/t && stat -c %Y o/t/x; tar tf t.tar | sort; \
         tar czf - t | tar tzf - | wc -l; gzip -k t/a/numbers; zcat t/a/numbers.gz | md5sum",
    );
}

#[test]
fn programs_are_built_and_run() {
    let cluster = TestCluster::start(3);
    if std::process::Command::new("gcc").arg("--version").output().is_err() {
        return eprintln!("skipped: gcc is not installed");
    }
    let source = "#include <stdio.h>\nint main(int c, char **v) { printf(\"%d %s\\n\", c, v[1]); return 3; }\n";
    std::fs::write(cluster.scratch().join("h.c"), source).unwrap();
    same(
        &cluster,
        "cp $S/h.c .; gcc -c h.c && gcc -o h h.o && ./h here; echo $?; ar rc l.a h.o; nm l.a | grep -c main; \
         printf '#!/bin/sh -e\\necho script $0 $1; exec ./h $1\\n' > s; ./s 1; chmod +x s; ./s 2; echo $?; $PWD/s 3; \
         python3 -c 'import os; print(os.waitpid(os.posix_spawn(\"./h\", [\"h\", \"spawned\"], os.environ), 0)[1])'; \
         python3 -c 'import subprocess as s; print(s.run([\"./s\", \"4\"], capture_output=True, text=True)); s.run(\"./h shell; pwd\", shell=True)'",
    );
}

#[test]
fn children_begin_where_they_are_told() {
    let cluster = TestCluster::start(2);
    let script = "import os, subprocess as s; os.mkdir('a'); os.mkdir('a/b')
def run(where): return s.run(['pwd'], cwd=where, capture_output=True, text=True).stdout.strip()
print(run('a'), run('/'), os.getcwd()); os.chdir('/tmp'); print(run(os.environ['D'] + '/a/b'), run('.'), os.getcwd())
pid = os.vfork() if hasattr(os, 'vfork') else os.fork()
if pid == 0: os.chdir(os.environ['D']); os._exit(0)
os.waitpid(pid, 0); print(os.getcwd())";
    std::fs::write(cluster.scratch().join("c.py"), script).unwrap();
    same(&cluster, "python3 $S/c.py");
}

#[test]
fn git_keeps_a_repository() {
    let cluster = TestCluster::start(3);
    if std::process::Command::new("git").arg("--version").output().is_err() {
        return eprintln!("skipped: git is not installed");
    }
    same(
        &cluster,
        "export HOME=$D GIT_AUTHOR_DATE='@1000000000 +0000' GIT_COMMITTER_DATE='@1000000000 +0000'; \
         git config --global user.email a@b; git config --global user.name n; git config --global init.defaultBranch main; \
         git init -q r; cd r; for i in $(seq 30); do echo $i > f$i; git add f$i; git commit -qm $i; done; git rev-parse HEAD; \
         cd ..; git clone -q r c; cd c; git log --oneline | wc -l; git gc -q; git fsck; git status --short; git checkout -q HEAD~5; ls | wc -l; \
         git checkout -q -b side; seq 5000 > big; git add big; git commit -qm big; git diff --stat HEAD~1; git log -1 --format=%T; git fsck --full",
    );
}

#[test]
fn python_sees_files_like_any() {
    let cluster = TestCluster::start(3);
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return eprintln!("skipped: python3 is not installed");
    }
    let script = r#"
import os, mmap, shutil, subprocess, tempfile, glob, pathlib, select, threading
open('x','w').write('hello\n'*10000)
print(os.path.getsize('x'), sorted(os.listdir('.')))
with open('x','rb') as f:
    m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); print(m[:5], len(m), m.find(b'o')); m.close()
    m = mmap.mmap(f.fileno(), 4096, access=mmap.ACCESS_COPY, offset=4096); m[0:3] = b'abc'; print(m[:6]); m.close()
print(open('x').read()[:5])
print(subprocess.run(['wc','-c','x'],capture_output=True,text=True).stdout)
with open('out','w') as o: subprocess.run(['sh','-c','echo child; echo err >&2'],stdout=o,stderr=o)
print(open('out').read())
with open('x') as i: print(subprocess.run(['head','-1'],stdin=i,capture_output=True,text=True).stdout)
print(subprocess.run('pwd; ls',shell=True,capture_output=True,text=True,cwd='.').stdout)
os.makedirs('a/b/c'); pathlib.Path('a/b/f').write_text('f'); shutil.copytree('a','z'); print(sorted(glob.glob('**',recursive=True)))
with tempfile.NamedTemporaryFile(dir='.') as t: t.write(b'abc'); t.flush(); print(os.fstat(t.fileno()).st_size)
with tempfile.TemporaryDirectory(dir='.') as t: open(t+'/f','w').close(); print(len(os.listdir(t)))
fd = os.open('app', os.O_CREAT|os.O_WRONLY|os.O_APPEND)
pid = os.fork()
for i in range(200): os.write(fd, b'%03d\n' % i)
if pid == 0: os._exit(0)
print(os.waitpid(pid,0)[1], len(open('app').read().split()))
d = os.open('a', os.O_RDONLY|os.O_DIRECTORY)
print(os.stat('b/f', dir_fd=d).st_size, os.listdir(d), sorted(e.name for e in os.scandir(d)))
os.rename('b/f', 'g', src_dir_fd=d, dst_dir_fd=d); print(sorted(os.listdir('a')), os.access('a/g', os.W_OK))
os.setxattr('x', 'user.k', b'v'); print(os.getxattr('x','user.k'), os.listxattr('x'))
r, w, e = select.select([d], [d], [], 0); print(len(r), len(w))
f = open('t','w+'); f.write('0123456789'); f.seek(3); print(f.read(2)); f.truncate(5); f.seek(0); print(f.read()); print(os.pread(f.fileno(),2,1), os.lseek(f.fileno(),0,2))
def work(n):
    for i in range(20):
        with open('th%d' % n, 'a') as g: g.write('%d\n' % i)
ts = [threading.Thread(target=work, args=(n,)) for n in range(6)]
[t.start() for t in ts]; [t.join() for t in ts]; print(sum(len(open('th%d' % n).readlines()) for n in range(6)))
os.chdir('a'); print(os.path.basename(os.getcwd()), os.path.realpath('../x') == os.path.join(os.path.dirname(os.getcwd()), 'x'))
os.utime('g', (1, 2)); print(os.stat('g').st_mtime, os.system('ls'), os.popen('pwd').read().split('/')[-1])
shutil.rmtree('../z'); os.remove('../x'); print(os.path.exists('../x'))
"#;
    std::fs::write(cluster.scratch().join("t.py"), script).unwrap();
    same(&cluster, "python3 $S/t.py 2>&1 | grep -v '^$'");
    same(&cluster, "python3 $S/t.py > o 2>&1; grep -vc '^$' o; tail -3 o");
}

#[test]
fn df_shows_the_space_and_stat_the_file_system() {
    let cluster = TestCluster::start(2);
    let output = inside(&cluster, "d", "df --output=size . | tail -1; stat -f -c '%t %l' .");
    let said = text(&output);
    let mut lines = said.lines();
    assert!(lines.next().unwrap().trim().parse::<u64>().unwrap() > 0, "{said}");
    assert_eq!(lines.next().unwrap(), "53465650 255");
}

#[test]
fn links_lead_from_one_side_to_the_other() {
    let cluster = TestCluster::start(2);
    let output = inside(
        &cluster,
        "d",
        "ln -s $S out; echo a > out/f; cat $S/f; ln -s $D $S/in; echo b > $S/in/g; cat g; ls $S/in/; cat $S/in/out/in/g; \
         rm $S/in; cd out && pwd -P; cd / && ls pvfs/d; cat pvfs/d/g; cat $D/../../etc/hostname | wc -l",
    );
    let scratch = cluster.scratch().display().to_string();
    let expected = format!("a\nb\ng\nout\nb\n{scratch}\ng\nout\nb\n1\n");
    assert_eq!(text(&output), expected);
}
