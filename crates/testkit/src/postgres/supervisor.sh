# Owns one PostgreSQL: does what it is told on stdin, one order per line, and answers each with an exit
# code. Stdin ends when the test process ends, however it ends; then nothing of the server may remain.
# Orders run here, one after another, so that an order half done by then is finished before it is undone.
bin=$1
dir=$2

# The last answer may find nobody listening, and a terminal's Ctrl-C is for the tests, not for us.
trap '' PIPE HUP INT TERM

obey() {
    case $1 in
    init) "$bin/initdb" -D data -U fencepost -E UTF8 --auth=trust --no-locale --no-sync ;;
    clone) "$bin/pg_basebackup" -D data -h 127.0.0.1 -p "$2" -U fencepost -R -X stream -c fast --no-sync ;;
    start) "$bin/pg_ctl" start -D data -l server.log -w -t 60 ;;
    stop) "$bin/pg_ctl" stop -D data -m "$2" -w -t 60 ;;
    *) return 64 ;;
    esac
}

cd "$dir" || exit 1
while read -r verb argument; do
    obey "$verb" "$argument" </dev/null >>programs.log 2>&1
    echo $?
done

if [ -f data/postmaster.pid ]; then
    read -r postmaster <data/postmaster.pid
    # A test may have left it stopped by a signal.
    kill -CONT "$postmaster"
    "$bin/pg_ctl" stop -D data -m immediate -w -t 20 || kill -KILL "$postmaster"
fi >/dev/null 2>&1
cd /
rm -rf "$dir"
